//! The single generator behind every choice that must be reproducible: splitmix64, small and good enough.

#![forbid(unsafe_code)]

pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    /// True in `part` of 256 cases.
    pub(crate) fn chance(&mut self, part: u32) -> bool {
        (self.next() >> 56) < u64::from(part)
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_make_equal_choices() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let mut bytes = ([0; 13], [0; 13]);
        one.fill(&mut bytes.0);
        other.fill(&mut bytes.1);
        assert_eq!(bytes.0, bytes.1);
        assert!((0..100).all(|_| one.below(3) < 3));
        assert!(!one.chance(0) && one.chance(256));
    }
}
