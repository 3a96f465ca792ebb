//! The decision by table, without any node.

use proptest::prelude::*;

use super::*;
use crate::questions::AlarmKind;

fn node(number: u64) -> Node {
    format!("10.0.0.{number}").parse().unwrap()
}

fn member(number: u64) -> Member {
    Member { id: MemberId(number), name: format!("cp-{number}"), nodes: vec![node(number)], is_learner: false }
}

/// A healthy member of a cluster that member 1 leads.
fn status(number: u64) -> MemberStatus {
    MemberStatus {
        member_id: MemberId(number),
        etcd_version: "3.6.5".to_owned(),
        storage_version: None,
        db_size_bytes: 1 << 20,
        db_in_use_bytes: 1 << 19,
        leader: Some(MemberId(1)),
        raft_index: 50_000,
        applied_index: 50_000,
        raft_term: 7,
        errors: vec![],
        is_learner: false,
    }
}

fn cluster(change: impl FnOnce(&mut [Observation])) -> Observed {
    let mut statuses: Vec<Observation> = (1..=3)
        .map(|number| Observation { member: member(number), node: Some(node(number)), status: Ok(status(number)) })
        .collect();
    change(&mut statuses);
    Observed {
        endpoint: "10.0.0.1".parse().unwrap(),
        members: Ok(statuses.iter().map(|observation| observation.member.clone()).collect()),
        statuses,
        here: Ok(status(1)),
        alarms: Ok(vec![]),
    }
}

fn with(number: usize, change: impl Fn(&mut MemberStatus)) -> impl Fn(&mut [Observation]) {
    move |statuses| change(statuses[number - 1].status.as_mut().unwrap())
}

fn chosen(observed: &Observed) -> String {
    decide(observed).node.map_or_else(|| "endpoint".to_owned(), |node| node.to_string())
}

#[test]
fn a_healthy_follower_is_preferred_and_the_reason_is_given() {
    let choice = decide(&cluster(|_| {}));
    assert_eq!(choice.node, Some(node(2)));
    assert_eq!(choice.why, "member cp-2 (10.0.0.2) is a follower, healthy and up to date (3 of 3 members answered)");
    assert_eq!(choice.warnings, Vec::<String>::new());
    assert_eq!((choice.facts.name.as_deref(), choice.facts.members), (Some("cp-2"), Some(3)));
    assert_eq!(choice.facts.status.unwrap().applied_index, 50_000);
}

#[test]
fn what_makes_a_follower_unfit_moves_the_choice_on() {
    type Change = fn(&mut MemberStatus);
    let unfit: [(&str, Change); 5] = [
        ("learner", |s| s.is_learner = true),
        ("no leader", |s| s.leader = None),
        ("errors", |s| s.errors.push("etcdserver: no leader".to_owned())),
        ("old term", |s| s.raft_term = 6),
        ("lag", |s| s.applied_index = 40_000),
    ];
    for (name, change) in unfit {
        assert_eq!(chosen(&cluster(with(2, change))), "10.0.0.3", "{name}: the other follower");
        let both = |statuses: &mut [Observation]| {
            with(2, change)(statuses);
            with(3, change)(statuses);
        };
        assert_eq!(chosen(&cluster(both)), "10.0.0.1", "{name}: then the leader");
    }
}

#[test]
fn a_member_that_is_a_learner_only_in_the_list_is_not_chosen() {
    assert_eq!(chosen(&cluster(|statuses| statuses[1].member.is_learner = true)), "10.0.0.3");
}

#[test]
fn a_small_distance_in_the_raft_log_means_nothing() {
    assert_eq!(chosen(&cluster(with(2, |s| s.applied_index -= 900))), "10.0.0.2");
}

#[test]
fn a_member_with_the_corrupt_alarm_is_avoided_and_alarms_are_told() {
    let mut observed = cluster(|_| {});
    observed.alarms = Ok(vec![Alarm { member_id: MemberId(2), kind: AlarmKind::Corrupt }]);
    let choice = decide(&observed);
    assert_eq!(choice.node, Some(node(3)));
    assert_eq!(choice.warnings, ["etcd member 0000000000000002 has raised the CORRUPT alarm"]);
}

#[test]
fn an_alarm_that_every_member_repeats_still_leaves_a_choice() {
    let nospace = |statuses: &mut [Observation]| {
        for observation in statuses {
            observation.status.as_mut().unwrap().errors.push("memberID:2 alarm:NOSPACE".to_owned());
        }
    };
    let choice = decide(&cluster(nospace));
    assert_eq!(choice.node, Some(node(2)));
    assert!(choice.warnings[0].contains("NOSPACE"), "{:?}", choice.warnings);
}

#[test]
fn without_a_quorum_the_most_advanced_member_is_taken_with_a_warning() {
    let lost = |statuses: &mut [Observation]| {
        for (observation, applied) in statuses.iter_mut().zip([49_990, 49_980, 50_000]) {
            let status = observation.status.as_mut().unwrap();
            status.leader = None;
            status.applied_index = applied;
        }
    };
    let choice = decide(&cluster(lost));
    assert_eq!(choice.node, Some(node(3)));
    assert!(choice.warnings[0].contains("quorum") && choice.why.contains("best there is"), "{choice:?}");
}

#[test]
fn a_member_cut_off_from_the_others_is_not_chosen() {
    // It still believes in its old leader, itself; the others have moved on to the next term.
    let split = |statuses: &mut [Observation]| {
        for observation in &mut statuses[1..] {
            let status = observation.status.as_mut().unwrap();
            (status.leader, status.raft_term) = (Some(MemberId(2)), 8);
        }
    };
    assert_eq!(chosen(&cluster(split)), "10.0.0.3");
}

#[test]
fn members_that_do_not_answer_are_warnings() {
    let choice = decide(&cluster(|statuses| {
        statuses[1].status = Err("Unavailable: no route".to_owned());
        statuses[2].status = Err("it has no address".to_owned());
    }));
    assert_eq!(choice.node, Some(node(1)));
    assert!(choice.why.contains("the leader") && choice.why.contains("1 of 3"), "{}", choice.why);
    assert!(choice.warnings[0].contains("cp-2") && choice.warnings[0].contains("no route"), "{:?}", choice.warnings);
}

#[test]
fn when_nothing_may_be_asked_the_endpoint_is_taken_and_the_reason_told() {
    let denied = || "not allowed (PermissionDenied: not authorized)".to_owned();
    let observed = Observed {
        endpoint: "10.0.0.1".parse().unwrap(),
        members: Err(denied()),
        statuses: vec![],
        here: Err(denied()),
        alarms: Err(denied()),
    };
    let choice = decide(&observed);
    assert_eq!((choice.node, choice.facts), (None, MemberFacts::default()));
    assert!(
        choice.why.contains("10.0.0.1:50000 is connected") && choice.why.contains("not authorized"),
        "{}",
        choice.why
    );
    assert!(choice.warnings[0].contains("not known"));
}

#[test]
fn without_a_member_list_the_endpoints_own_status_is_used() {
    let mut observed = cluster(|_| {});
    observed.members = Err("denied".to_owned());
    observed.statuses.clear();
    observed.here.as_mut().unwrap().is_learner = true;
    let choice = decide(&observed);
    assert_eq!((choice.node, choice.facts.member_id), (None, Some(MemberId(1))));
    assert!(choice.warnings[0].contains("learner"), "{:?}", choice.warnings);
}

#[test]
fn without_statuses_the_endpoint_is_taken_unless_the_list_calls_it_a_learner() {
    let silent = |learner: bool| {
        let mut observed = cluster(|statuses| {
            statuses[0].member.is_learner = learner;
            statuses.iter_mut().for_each(|observation| observation.status = Err("denied".to_owned()));
        });
        observed.here = Err("denied".to_owned());
        observed
    };
    let choice = decide(&silent(false));
    assert_eq!((choice.node, choice.facts.name.as_deref()), (None, Some("cp-1")));
    assert_eq!(chosen(&silent(true)), "10.0.0.2");
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let mut observed = cluster(|_| {});
    observed.statuses.reverse();
    assert_eq!(chosen(&observed), "10.0.0.2");
}

#[test]
fn a_node_named_by_hand_is_taken_with_its_defects_told() {
    let mut learner = status(2);
    learner.is_learner = true;
    let members = Ok(vec![member(1), member(2)]);
    let choice = decide::explicit(&node(2), Ok(learner), members.clone(), Ok(vec![]));
    assert_eq!((choice.node.clone(), choice.facts.name.as_deref()), (Some(node(2)), Some("cp-2")));
    assert!(choice.warnings[0].contains("learner"), "{:?}", choice.warnings);

    let choice = decide::explicit(&node(2), Err("denied".to_owned()), members, Err("denied".to_owned()));
    assert_eq!((choice.facts.name.as_deref(), choice.facts.alarms), (Some("cp-2"), None));
    assert!(choice.warnings[0].contains("not known: denied"), "{:?}", choice.warnings);
}

proptest! {
    #[test]
    fn a_learner_or_a_leaderless_member_is_never_chosen_over_a_sound_one(
        states in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..3, 0_u64..3_000, any::<bool>()), 0..6),
    ) {
        let statuses: Vec<Observation> = (1..).zip(&states).map(|(number, &(learner, leaderless, term, applied, silent))| {
            let mut status = status(number);
            status.is_learner = learner;
            status.raft_term = term;
            status.applied_index = applied;
            status.leader = (!leaderless).then_some(MemberId(1));
            let status = if silent { Err("silent".to_owned()) } else { Ok(status) };
            Observation { member: member(number), node: Some(node(number)), status }
        }).collect();
        let mut observed = cluster(|_| {});
        observed.members = Ok(statuses.iter().map(|observation| observation.member.clone()).collect());
        observed.statuses = statuses;

        let choice = decide(&observed);
        let answered = || observed.statuses.iter().filter_map(|observation| observation.status.as_ref().ok());
        let sound = |status: &MemberStatus| !status.is_learner && status.leader.is_some();
        match choice.node {
            None => prop_assert_eq!(answered().count(), 0),
            Some(_) => {
                let chosen = choice.facts.status.unwrap();
                prop_assert!(sound(&chosen) || !answered().any(sound));
                prop_assert!(sound(&chosen) || !choice.warnings.is_empty());
            }
        }
    }
}
