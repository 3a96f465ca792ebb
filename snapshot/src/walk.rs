//! Walks the tree from its root over the remembered pages.
//!
//! Invariant: every page is entered once, continuation included, so the walk ends whatever the file claims, and its cost
//! is linear in the pages. Only what the walk reaches counts, as data or as damage; free pages are stale by nature.

use crate::key::{ChildReader, Key};
use crate::meta::Meta;
use crate::record::{FreeList, Kind, Ledger, Record};

/// Problems are for people: the first few say it all, and a hostile file can have millions.
const PROBLEMS_CAP: usize = 20;

/// The smallest page that can be part of the tree; two meta pages come before it.
const FIRST_PAGE: u64 = 2;

/// A tree of two children per branch would be this deep only with more pages than a file can have.
const DEPTH_CAP: u32 = 64;

/// What is wrong, and how much of the rest can be believed.
#[derive(Default)]
pub(crate) struct Findings {
    problems: Vec<String>,
    more: u64,
    /// Something is wrong that no whole snapshot has.
    pub(crate) is_damaged: bool,
    /// Something could not be looked at.
    pub(crate) is_too_large: bool,
    /// A part of the tree could not be read, so that sums over it would be too small.
    pub(crate) is_incomplete: bool,
}

impl Findings {
    /// Something worth saying that does not make the snapshot bad.
    pub(crate) fn note(&mut self, sentence: String) {
        if self.problems.len() < PROBLEMS_CAP {
            self.problems.push(sentence);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn damage(&mut self, sentence: String) {
        self.is_damaged = true;
        self.note(sentence);
    }

    /// Damage that hides a part of the tree.
    pub(crate) fn lose(&mut self, sentence: String) {
        self.is_incomplete = true;
        self.damage(sentence);
    }

    pub(crate) fn give_up(&mut self, sentence: String) {
        self.is_too_large = true;
        self.is_incomplete = true;
        self.note(sentence);
    }

    pub(crate) fn into_problems(mut self) -> Vec<String> {
        if self.more > 0 {
            self.problems.push(format!("and {} more problems", self.more));
        }
        self.problems
    }
}

/// One bit per page.
struct PageSet {
    bits: Vec<u64>,
}

impl PageSet {
    fn new(pages: u64) -> Self {
        PageSet { bits: vec![0; pages.div_ceil(64) as usize] }
    }

    /// Adds a page; false if it was there already.
    fn insert(&mut self, page: u64) -> bool {
        let (word, bit) = (&mut self.bits[(page / 64) as usize], 1 << (page % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn contains(&self, page: u64) -> bool {
        self.bits[(page / 64) as usize] & (1 << (page % 64)) != 0
    }
}

/// A page that is still to be entered, and the keys that it may hold: from `lower` on, and below `upper`.
struct Step {
    page: u64,
    lower: Option<Key>,
    upper: Option<Key>,
    depth: u32,
}

/// The walk over one file.
pub(crate) struct Walk {
    meta: Meta,
    reached: PageSet,
    pub(crate) findings: Findings,
}

impl Walk {
    /// The caller has made sure that the file is as long as the meta page says: that bounds the memory here.
    pub(crate) fn new(meta: Meta, findings: Findings) -> Self {
        Walk { meta, reached: PageSet::new(meta.high_water), findings }
    }

    /// Calls `each` with the leaves of a tree in key order, as far as the tree can be read.
    pub(crate) fn leaves(&mut self, ledger: &Ledger, root: u64, mut each: impl FnMut(&mut Findings, &Record)) {
        let mut steps = vec![Step { page: root, lower: None, upper: None, depth: 0 }];
        while let Some(step) = steps.pop() {
            let Some(record) = self.enter(ledger, step.page) else { continue };
            match record.kind {
                Kind::Branch => self.branch(ledger, record, &step, &mut steps),
                Kind::Leaf => {
                    if record.count > 0 {
                        self.hold_to_bounds(ledger, record.page, &record.first, &record.last, &step);
                    }
                    each(&mut self.findings, record);
                }
                Kind::FreeList => self.findings.lose(format!("page {} is a free list in the tree", step.page)),
                Kind::Unjudged => {
                    self.findings.give_up(format!("page {} and its continuation are too large to judge", step.page));
                }
            }
        }
    }

    /// Takes a page, continuation included, out of those that may still be entered.
    fn enter<'a>(&mut self, ledger: &'a Ledger, page: u64) -> Option<&'a Record> {
        let high_water = self.meta.high_water;
        if !(FIRST_PAGE..high_water).contains(&page) {
            self.findings.lose(format!("the tree points to page {page}, but only 2 to {high_water} (exclusive) exist"));
            return None;
        }
        let Some(record) = ledger.record(page) else {
            self.findings
                .lose(format!("page {page} should be part of the tree, but its header is not that of a tree page"));
            return None;
        };
        let mut is_new = true;
        for part in page..=page + u64::from(record.overflow) {
            is_new &= self.reached.insert(part);
        }
        if !is_new {
            self.findings.lose(format!("page {page} is reached twice"));
            return None;
        }
        if let Some(fault) = record.fault {
            self.findings.damage(format!("page {page} {}", fault.sentence()));
        }
        if !record.is_readable() {
            self.findings.is_incomplete = true;
            return None;
        }
        Some(record)
    }

    fn branch(&mut self, ledger: &Ledger, record: &Record, step: &Step, steps: &mut Vec<Step>) {
        if step.depth == DEPTH_CAP {
            return self.findings.lose(format!("the tree is more than {DEPTH_CAP} levels deep at page {}", step.page));
        }
        let children: Vec<(Key, u64)> = ChildReader::new(&ledger.arena, record.children(), record.count).collect();
        if let (Some((first, _)), Some((last, _))) = (children.first(), children.last()) {
            self.hold_to_bounds(ledger, record.page, first, last, step);
        }
        let mut upper = step.upper;
        for (separator, page) in children.into_iter().rev() {
            steps.push(Step { page, lower: Some(separator), upper, depth: step.depth + 1 });
            upper = Some(separator);
        }
    }

    /// The keys of a page lie where its parent says.
    fn hold_to_bounds(&mut self, ledger: &Ledger, page: u32, first: &Key, last: &Key, step: &Step) {
        let is_below = step.lower.is_some_and(|lower| first.compare(&lower, &ledger.arena).is_lt());
        let is_above = step.upper.is_some_and(|upper| last.compare(&upper, &ledger.arena).is_ge());
        if is_below || is_above {
            self.findings.damage(format!("page {page} has keys that its parent page places elsewhere"));
        }
    }

    /// With a persisted free list every page is either in the tree or free. To be called when all trees were walked.
    pub(crate) fn free_list(&mut self, ledger: &Ledger) {
        let (Some(page), Some(free_list)) = (self.meta.free_list_page, &ledger.free_list) else { return };
        if ledger.record(page).is_some_and(|record| record.kind == Kind::Unjudged) {
            return self.findings.give_up(format!("the free list on page {page} is too large to judge"));
        }
        let ids = match free_list {
            FreeList::Ids(ids) => ids,
            FreeList::Missing => {
                return self.findings.damage(format!("page {page} should be the free list, but it is not"));
            }
            FreeList::Unreadable => {
                return self.findings.damage(format!("the free list on page {page} is longer than its page"));
            }
        };
        if self.enter(ledger, page).is_none() {
            return;
        }
        let mut free = PageSet::new(self.meta.high_water);
        for &id in ids {
            if !(FIRST_PAGE..self.meta.high_water).contains(&id) {
                self.findings.damage(format!("the free list names page {id}, which does not exist"));
            } else if !free.insert(id) {
                self.findings.damage(format!("the free list names page {id} twice"));
            } else if self.reached.contains(id) {
                self.findings.damage(format!("page {id} is in use, but the free list calls it free"));
            }
        }
        for page in FIRST_PAGE..self.meta.high_water {
            if !free.contains(page) && !self.reached.contains(page) {
                self.findings.damage(format!("page {page} is neither in use nor on the free list"));
            }
        }
    }
}
