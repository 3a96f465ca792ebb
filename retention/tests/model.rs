//! Every state that backups, two prunes, crashes between deletions and a wrong clock can reach, over the pure function.
//!
//! Small on purpose and complete: a few backups, a clock that steps both ways, two prunes whose plans may be as old as they
//! like. A prune holds the plan that it made and removes one backup at a time; anything may happen between two removals.
//! In no state may the good backups all be gone once there was one.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use bronzenail_retention::{Backup, Consent, Count, Level, Policy, plan};
use chrono::{DateTime, TimeDelta, Utc};

const DAYS: u8 = 3;

/// One backup in the store: its name is the order in which it was taken, its time what the clock said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Stored {
    name: u8,
    day: u8,
    evidence: Level,
    held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct World {
    store: Vec<Stored>,
    taken: u8,
    clock_day: u8,
    /// What each of the two prunes still means to remove, next one first. None: it does not run.
    prunes: [Option<Vec<u8>>; 2],
    had_a_good_one: bool,
}

fn day(day: u8) -> DateTime<Utc> {
    "2026-11-01T02:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::days(day.into())
}

/// How much may happen.
#[derive(Clone, Copy)]
struct Bounds {
    backups: u8,
    levels: &'static [Level],
    /// Whether backups are held and released.
    holds: bool,
}

const TWO_LEVELS: &[Level] = &[Level::Streamed, Level::Stored];
const THREE_LEVELS: &[Level] = &[Level::Streamed, Level::Stored, Level::Restored];

const fn few(backups: u8) -> Bounds {
    Bounds { backups, levels: TWO_LEVELS, holds: false }
}

/// Names to remove, in order; nothing where there is no plan.
type Planner<'a> = dyn Fn(&[Stored], DateTime<Utc>) -> Vec<u8> + 'a;

fn ours(policy: &Policy) -> impl Fn(&[Stored], DateTime<Utc>) -> Vec<u8> {
    move |store, now| {
        let entries = store.iter().map(|stored| Backup {
            held: stored.held.then(|| "held".to_owned()),
            ..Backup::new(stored.name, day(stored.day), Some(stored.evidence))
        });
        // The most willing operator: says yes to whatever is asked.
        let yes = Consent { to_large_share: true, to_drop: true };
        plan(entries.collect(), policy, now)
            .map(|plan| plan.removals(yes).unwrap().iter().map(|backup| backup.id).collect())
            .unwrap_or_default()
    }
}

impl World {
    fn good(&self) -> usize {
        self.store.iter().filter(|stored| stored.evidence >= Level::Stored).count()
    }

    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        change(&mut next);
        next.had_a_good_one |= next.good() > 0;
        next.prunes.sort(); // which of the two is which makes no other state
        next
    }

    /// Everything that can happen next.
    fn successors(&self, bounds: Bounds, planner: &Planner) -> Vec<Self> {
        let mut next = Vec::new();
        if self.taken < bounds.backups {
            for &evidence in bounds.levels {
                next.push(self.with(|world| {
                    let (name, day) = (world.taken, world.clock_day);
                    world.store.push(Stored { name, day, evidence, held: false });
                    world.taken += 1;
                }));
            }
        }
        for clock_day in (0..DAYS).filter(|day| *day != self.clock_day) {
            next.push(self.with(|world| world.clock_day = clock_day));
        }
        for place in 0..self.store.len() {
            if self.store[place].evidence == Level::Streamed {
                next.push(self.with(|world| world.store[place].evidence = Level::Stored));
            }
            if bounds.holds {
                next.push(self.with(|world| world.store[place].held ^= true));
            }
        }
        for prune in 0..self.prunes.len() {
            match self.prunes[prune].as_deref() {
                None => next.push(self.with(|world| {
                    let doomed = planner(&world.store, day(world.clock_day));
                    world.prunes[prune] = (!doomed.is_empty()).then_some(doomed);
                })),
                Some(doomed) => {
                    next.push(self.with(|world| world.prunes[prune] = None)); // a crash
                    // Gone already is as good: the other prune was faster.
                    next.push(self.with(|world| {
                        world.store.retain(|stored| stored.name != doomed[0]);
                        world.prunes[prune] = Some(doomed[1..].to_vec()).filter(|left| !left.is_empty());
                    }));
                }
            }
        }
        next
    }
}

/// Walks every reachable state, nearest first; returns how many there are, or the shortest way to one in which the last good
/// backup is gone.
fn explore(bounds: Bounds, planner: &Planner) -> Result<usize, Vec<World>> {
    let known = RefCell::new(HashMap::new());
    let planner = |store: &[Stored], now: DateTime<Utc>| -> Vec<u8> {
        known.borrow_mut().entry((store.to_vec(), now)).or_insert_with(|| planner(store, now)).clone()
    };
    let mut before: HashMap<World, Option<World>> = HashMap::from([(World::default(), None)]);
    let mut open = VecDeque::from([World::default()]);
    while let Some(world) = open.pop_front() {
        if world.had_a_good_one && world.good() == 0 {
            let mut way = vec![world];
            while let Some(Some(step)) = way.last().map(|last| before[last].clone()) {
                way.push(step);
            }
            way.reverse();
            return Err(way);
        }
        for next in world.successors(bounds, &planner) {
            if let Entry::Vacant(new) = before.entry(next.clone()) {
                new.insert(Some(world.clone()));
                open.push_back(next);
            }
        }
    }
    Ok(before.len())
}

fn policies() -> Vec<Policy> {
    let strict =
        Policy { min_evidence: Level::Stored, unproven_grace: "0d".parse().unwrap(), keep_min: 0, ..Policy::default() };
    vec![
        Policy { last: Count::from(1), ..strict.clone() },
        Policy { within: "1d".parse().unwrap(), ..strict.clone() },
        Policy { within: "1min".parse().unwrap(), unproven_grace: "1d".parse().unwrap(), ..strict.clone() },
        // Under this one, what the others call proven is not.
        Policy { daily: Count::from(1), min_evidence: Level::Restored, ..strict },
    ]
}

fn prove(policy: &Policy, bounds: Bounds) {
    match explore(bounds, &ours(policy)) {
        Ok(states) => assert!(states > 500, "{policy}: only {states} states"),
        Err(way) => panic!("{policy}: the last good backup is gone after {way:#?}"),
    }
}

#[test]
fn the_last_good_backup_is_gone_in_no_reachable_state() {
    for policy in policies() {
        prove(&policy, Bounds { backups: 3, levels: THREE_LEVELS, holds: false });
    }
}

#[test]
fn the_last_good_backup_is_gone_in_no_reachable_state_where_holds_come_and_go() {
    for policy in policies() {
        prove(&policy, Bounds { backups: 2, levels: THREE_LEVELS, holds: true });
        prove(&policy, Bounds { backups: 3, levels: &[Level::Stored], holds: true });
    }
}

/// The model must be able to fail, or it proves nothing.
#[test]
fn the_model_catches_planners_that_lose_the_last_good_backup() {
    let newest_only = |store: &[Stored], _: DateTime<Utc>| -> Vec<u8> {
        let newest = store.iter().max_by_key(|stored| (stored.day, stored.name));
        store.iter().map(|stored| stored.name).filter(|name| Some(*name) != newest.map(|stored| stored.name)).collect()
    };
    assert!(explore(few(2), &newest_only).is_err(), "it keeps a newest one that is not proven");

    let by_age = |store: &[Stored], now: DateTime<Utc>| -> Vec<u8> {
        store.iter().filter(|stored| day(stored.day) < now - TimeDelta::days(1)).map(|stored| stored.name).collect()
    };
    assert!(explore(few(1), &by_age).is_err(), "it measures age from the clock");

    // The future does not count, but is removed: the next prune, with the clock put right, removes the rest.
    let future_is_junk = |store: &[Stored], now: DateTime<Utc>| -> Vec<u8> {
        let proven = |stored: &&Stored| stored.evidence >= Level::Stored && day(stored.day) <= now;
        let newest = store.iter().filter(proven).max_by_key(|stored| (stored.day, stored.name));
        let Some(newest) = newest else { return Vec::new() };
        store.iter().map(|stored| stored.name).filter(|name| *name != newest.name).collect()
    };
    assert!(explore(few(2), &future_is_junk).is_err(), "two prunes each remove what the other keeps");

    // The grace of an unproven backup runs by the clock: one prune removes it, the other trusts it as soon as it is proven.
    let grace_by_clock = |store: &[Stored], now: DateTime<Utc>| -> Vec<u8> {
        let past: Vec<&Stored> = store.iter().filter(|stored| day(stored.day) <= now).collect();
        let proven = past.iter().filter(|stored| stored.evidence >= Level::Stored);
        let Some(newest) = proven.max_by_key(|stored| (stored.day, stored.name)) else { return Vec::new() };
        let goes = |stored: &&&Stored| match stored.evidence {
            Level::Streamed => day(stored.day) < now,
            _ => stored.name != newest.name,
        };
        past.iter().filter(goes).map(|stored| stored.name).collect()
    };
    assert!(explore(few(2), &grace_by_clock).is_err(), "a prune that trusts the clock for grace");
}

#[test]
fn prunes_that_disagree_on_what_is_proven_lose_nothing_together() {
    let policies = policies();
    let (loose, strict) = (ours(&policies[0]), ours(&policies[3]));
    // Which of them a prune has is drawn from what holds there are, so that either may plan in any state.
    let mixed = |store: &[Stored], now: DateTime<Utc>| {
        let held = store.iter().filter(|stored| stored.held).count();
        if held % 2 == 0 { loose(store, now) } else { strict(store, now) }
    };
    let bounds = Bounds { backups: 2, levels: THREE_LEVELS, holds: true };
    if let Err(way) = explore(bounds, &mixed) {
        panic!("the last good backup is gone after {way:#?}");
    }
}

#[test]
fn a_prune_never_names_what_came_after_its_listing() {
    for policy in policies() {
        let planner = ours(&policy);
        let store: Vec<Stored> =
            (0..DAYS).map(|day| Stored { name: day, day, evidence: Level::Stored, held: false }).collect();
        let listed: BTreeSet<u8> = store.iter().map(|stored| stored.name).collect();
        assert!(planner(&store, day(DAYS)).iter().all(|name| listed.contains(name)));
    }
}
