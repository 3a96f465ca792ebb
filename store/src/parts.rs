//! How large each part of an upload is.
//!
//! Some stores want all parts but the last of one size, all refuse more than 10,000. So the size is fixed, and only where a
//! snapshot is so large that it would meet the limit does it grow: with parts of 8 MiB that begins at 39 GiB of stored bytes,
//! far beyond what etcd recommends. An expected size, where one is known, picks a base that needs no growth.

/// Parts of fewer bytes are refused by S3 (all but the last).
pub const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;
/// One or two of them in flight are enough to hide behind the source.
pub const PART_BYTES_DEFAULT: u64 = 8 * 1024 * 1024;
/// S3's own limit for a part is 5 GiB; ours keeps memory bounded.
pub const PART_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// S3's limit of parts in one upload.
pub const PARTS_MAX: u32 = 10_000;

/// The sizes of an upload's parts. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlan {
    base_bytes: u64,
    parts_max: u32,
}

impl PartPlan {
    /// A plan whose parts have `base_bytes`, or more if `expected_bytes` asks for it.
    pub fn new(base_bytes: u64, expected_bytes: Option<u64>, parts_max: u32) -> Self {
        let mut base_bytes = base_bytes.clamp(1, PART_BYTES_MAX);
        let steady = u64::from(parts_max / 2).max(1);
        // Whole MiB, so that the number is a round one in the store's own tools too.
        let wanted = expected_bytes.unwrap_or(0).div_ceil(steady).next_multiple_of(1024 * 1024);
        base_bytes = base_bytes.max(wanted.min(PART_BYTES_MAX));
        Self { base_bytes, parts_max }
    }

    /// Bytes of part `number`, counted from 1; `None` past the store's limit.
    ///
    /// The first half of all parts have the base size; each following tenth doubles it.
    pub fn part_bytes(&self, number: u32) -> Option<u64> {
        if number == 0 || number > self.parts_max {
            return None;
        }
        let steady = (self.parts_max / 2).max(1);
        let step = (self.parts_max / 10).max(1);
        let doublings = if number <= steady { 0 } else { (number - steady).div_ceil(step) };
        Some((self.base_bytes << doublings.min(16)).min(PART_BYTES_MAX.max(self.base_bytes)))
    }

    /// Most bytes that an upload by this plan can have.
    pub fn bytes_max(&self) -> u64 {
        (1..=self.parts_max).filter_map(|number| self.part_bytes(number)).sum()
    }

    /// How many parts a store takes.
    pub fn parts_max(&self) -> u32 {
        self.parts_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    #[test]
    fn b32_parts_of_any_likely_snapshot_are_equal() {
        let plan = PartPlan::new(PART_BYTES_DEFAULT, None, PARTS_MAX);
        let equal = (1..=5_000).all(|number| plan.part_bytes(number) == Some(PART_BYTES_DEFAULT));
        assert!(equal);
    }

    #[test]
    fn b31_no_snapshot_meets_the_limit_of_parts() {
        let plan = PartPlan::new(PART_BYTES_MIN, None, PARTS_MAX);
        assert!(plan.bytes_max() > 300 * GIB, "{} GiB", plan.bytes_max() / GIB);
        assert_eq!(plan.part_bytes(PARTS_MAX + 1), None);
        assert_eq!(plan.part_bytes(0), None);
    }

    #[test]
    fn b32_an_expected_size_picks_equal_parts_beforehand() {
        let expected = 200 * GIB;
        let plan = PartPlan::new(PART_BYTES_DEFAULT, Some(expected), PARTS_MAX);
        let first = plan.part_bytes(1).unwrap();
        assert!(first > PART_BYTES_DEFAULT);
        let needed = u32::try_from(expected.div_ceil(first)).unwrap();
        assert!((1..=needed).all(|number| plan.part_bytes(number) == Some(first)));
    }

    #[test]
    fn growth_never_shrinks_a_part_and_stays_bounded() {
        for base in [1, PART_BYTES_MIN, PART_BYTES_DEFAULT, PART_BYTES_MAX] {
            for limit in [1, 2, 10, 100, PARTS_MAX] {
                let plan = PartPlan::new(base, None, limit);
                let sizes: Vec<u64> = (1..=limit).filter_map(|number| plan.part_bytes(number)).collect();
                assert_eq!(sizes.len(), limit as usize);
                assert!(sizes.is_sorted() && sizes.iter().all(|size| *size <= PART_BYTES_MAX));
            }
        }
    }
}
