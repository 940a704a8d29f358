//! Which thread runs next.
//!
//! Every choice comes from one generator that the seed starts; equal seeds make equal choices as long as the
//! program does the same.

#![forbid(unsafe_code)]

use crashproof_protocol::schedule;

use crate::random::Random;

/// Where the program is when somebody may be switched to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// An access to PM, a flush or a fence.
    Memory,
    /// A place where programs spin: an atomic or volatile access, a failed exchange, `pause`.
    Spin,
    /// A call of a synchronization function.
    Sync,
}

/// A thread that can run, and how PCT ranks it.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) number: u16,
    pub(crate) priority: i64,
}

/// What becomes of the running thread where it could go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    Stay,
    /// One of the candidates runs, perhaps the same.
    Choose,
    /// Somebody else runs, if there is anybody.
    Yield,
}

/// How choices are made.
enum Kind {
    /// Whoever runs goes on until it waits or spins; then the next in order of creation.
    RoundRobin,
    /// A switch in so many of 256 accesses to PM; always a choice where threads synchronize.
    Random { switches: u32 },
    /// The thread of the highest priority runs; at a few moments the running one becomes the lowest
    /// (Burckhardt et al., ASPLOS 2010).
    Pct { changes: Vec<u64>, lowest: i64 },
}

pub(crate) struct Strategy {
    kind: Kind,
    pub(crate) random: Random,
    /// How often, in 256 places, something leaves a store buffer. None: stores take effect at once.
    pub(crate) leaving: Option<u32>,
}

/// How many changes of priority PCT makes: bugs that need this many ordered preemptions are found.
const CHANGES: usize = 3;

/// How long a run is taken to be if nobody knows.
const USUAL_POINTS: u64 = 1000;

impl Strategy {
    /// The strategy for a seed, for a run with about so many places to switch. What is tuned (how often to
    /// switch, how long stores wait) also comes from the seed, so that many seeds cover eager and lazy
    /// schedules alike.
    pub(crate) fn new(strategy: u32, seed: u32, points: u64) -> Strategy {
        let mut random = Random::new(u64::from(seed) << 8 | u64::from(strategy));
        // The number of a schedule of decisions must not matter: only they do.
        if seed == 0 || strategy == schedule::ROUND_ROBIN || strategy == schedule::DECISIONS {
            return Strategy { kind: Kind::RoundRobin, random, leaving: None };
        }
        let points = if points == 0 { USUAL_POINTS } else { points };
        let leaving = Some(random.of(&[128, 64, 24, 8]));
        let kind = if strategy == schedule::PCT {
            let changes = (0..CHANGES).map(|_| 1 + random.next() % points).collect();
            Kind::Pct { changes, lowest: 0 }
        } else {
            // In short runs a few switches must be likely, in long ones there are enough anyway.
            let wanted = random.of(&[2, 6, 20]);
            Kind::Random { switches: (256 * wanted / points).clamp(4, 160) as u32 }
        };
        Strategy { kind, random, leaving }
    }

    /// The rank of a new thread.
    pub(crate) fn priority(&mut self) -> i64 {
        match self.kind {
            Kind::Pct { .. } => 1 + (self.random.next() >> 32) as i64,
            _ => 0,
        }
    }

    /// What becomes of the running thread at the place numbered `at`. `spun`: it has been spinning for long.
    pub(crate) fn verdict(&mut self, point: Point, at: u64, spun: bool, priority: &mut i64) -> Verdict {
        match &mut self.kind {
            Kind::RoundRobin | Kind::Random { .. } if spun => Verdict::Yield,
            Kind::RoundRobin => Verdict::Stay,
            Kind::Random { switches } => {
                let part = if point == Point::Sync { 256 } else { *switches };
                if self.random.chance(part) { Verdict::Choose } else { Verdict::Stay }
            }
            Kind::Pct { changes, lowest } => {
                if spun || changes.contains(&at) {
                    changes.retain(|&change| change != at);
                    *lowest -= 1;
                    *priority = *lowest;
                }
                Verdict::Choose
            }
        }
    }

    /// The thread to run, of those that can; `current` runs now, or did a moment ago.
    pub(crate) fn choose(&mut self, candidates: &[Candidate], current: u16) -> u16 {
        match self.kind {
            Kind::RoundRobin => {
                let after = candidates.iter().find(|candidate| candidate.number > current);
                after.unwrap_or(&candidates[0]).number
            }
            Kind::Random { .. } => self.random.of(candidates).number,
            Kind::Pct { .. } => {
                candidates.iter().max_by_key(|candidate| candidate.priority).expect("somebody can run").number
            }
        }
    }

    /// Which of several waiting threads, longest waiting first, is woken.
    pub(crate) fn wake(&mut self, waiting: usize) -> usize {
        match self.kind {
            Kind::RoundRobin => 0,
            _ => self.random.below(waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(numbers: &[u16]) -> Vec<Candidate> {
        numbers.iter().map(|&number| Candidate { number, priority: i64::from(number) % 3 }).collect()
    }

    #[test]
    fn round_robin_goes_by_creation() {
        let mut strategy = Strategy::new(schedule::ROUND_ROBIN, 5, 0);
        assert_eq!(strategy.choose(&candidates(&[0, 2, 3]), 2), 3);
        assert_eq!(strategy.choose(&candidates(&[0, 2, 3]), 3), 0);
        assert!(strategy.verdict(Point::Memory, 1, false, &mut 0) == Verdict::Stay);
        assert!(strategy.verdict(Point::Spin, 1, true, &mut 0) == Verdict::Yield);
        assert!(strategy.leaving.is_none(), "stores take effect at once");
    }

    #[test]
    fn nothing_but_decisions_decides() {
        let mut strategy = Strategy::new(schedule::DECISIONS, 7, 100);
        assert!(strategy.leaving.is_none(), "who is alone stores at once");
        assert_eq!(strategy.wake(3), 0, "the same thread is woken in every run");
    }

    #[test]
    fn seed_zero_is_round_robin() {
        assert_eq!(Strategy::new(schedule::RANDOM, 0, 0).choose(&candidates(&[1, 2]), 1), 2);
    }

    #[test]
    fn the_highest_priority_runs_until_it_is_lowered() {
        let mut strategy = Strategy::new(schedule::PCT, 9, 10);
        assert_eq!(strategy.choose(&candidates(&[0, 2, 3]), 0), 2);
        let mut priority = 7;
        (1..=10).for_each(|at| {
            assert!(strategy.verdict(Point::Memory, at, false, &mut priority) == Verdict::Choose)
        });
        assert!((-3..0).contains(&priority), "it was lowered up to three times");
    }

    #[test]
    fn equal_seeds_choose_alike() {
        for strategy in [schedule::RANDOM, schedule::PCT] {
            let run = || {
                let mut strategy = Strategy::new(strategy, 3, 100);
                (0..50).map(|at| strategy.choose(&candidates(&[0, 1, 2, 3]), at % 4)).collect::<Vec<_>>()
            };
            assert_eq!(run(), run());
        }
    }
}
