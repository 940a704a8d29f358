//! Which thread runs next.
//!
//! All choices come from one seeded generator; equal seeds make equal choices as long as the program behaves
//! identically.

#![forbid(unsafe_code)]

use crashproof_protocol::schedule;

use crate::random::Random;

/// The kind of point at which threads may be switched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// An access to PM, a flush or a fence.
    Memory,
    /// A point where programs spin: an atomic or volatile access, a failed exchange, `pause`.
    Spin,
    /// A call of a synchronization function.
    Sync,
}

/// A runnable thread and its PCT priority.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) number: u16,
    pub(crate) priority: i64,
}

/// What happens to the running thread at a point where it could continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It continues.
    Stay,
    /// One of the candidates runs, perhaps the same.
    Choose,
    /// Another thread runs, if there is one.
    Yield,
}

/// How choices are made.
enum Kind {
    /// The running thread continues until it waits or spins; then the next in order of creation runs.
    RoundRobin,
    /// Switches at this many of 256 accesses to PM; always chooses at synchronization points.
    Random { switches: u32 },
    /// The thread with the highest priority runs; at a few points the running one becomes the lowest (Burckhardt et
    /// al., ASPLOS 2010).
    Pct { changes: Vec<u64>, lowest: i64 },
}

pub(crate) struct Strategy {
    kind: Kind,
    pub(crate) random: Random,
    /// How often, per 256 points, an entry leaves a store buffer. `None`: stores take effect at once.
    pub(crate) leaving: Option<u32>,
}

/// How many priority changes PCT makes: it finds bugs that need this many ordered preemptions.
const CHANGES: usize = 3;

/// The assumed number of points of a run if it is unknown.
const USUAL_POINTS: u64 = 1000;

impl Strategy {
    /// The strategy for a seed, for a run with about this many switching points. The seed also determines the tuning
    /// (how often to switch, how long to delay stores), so that many seeds cover eager and lazy schedules alike.
    pub(crate) fn new(strategy: u32, seed: u32, points: u64) -> Strategy {
        let mut random = Random::new(u64::from(seed) << 8 | u64::from(strategy));
        // With decisions, only those determine the run, not the number of the schedule.
        if seed == 0 || strategy == schedule::ROUND_ROBIN || strategy == schedule::DECISIONS {
            return Strategy { kind: Kind::RoundRobin, random, leaving: None };
        }
        let points = if points == 0 { USUAL_POINTS } else { points };
        let leaving = Some(random.of(&[128, 64, 24, 8]));
        let kind = if strategy == schedule::PCT {
            let changes = (0..CHANGES).map(|_| 1 + random.next() % points).collect();
            Kind::Pct { changes, lowest: 0 }
        } else {
            // Short runs need a reasonable chance of a few switches; long ones have enough anyway.
            let wanted = random.of(&[2, 6, 20]);
            Kind::Random { switches: (256 * wanted / points).clamp(4, 160) as u32 }
        };
        Strategy { kind, random, leaving }
    }

    /// The priority of a new thread.
    pub(crate) fn priority(&mut self) -> i64 {
        match self.kind {
            Kind::Pct { .. } => 1 + (self.random.next() >> 32) as i64,
            _ => 0,
        }
    }

    /// What happens to the running thread at point number `at`. `spun`: it has been spinning for long.
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

    /// The thread to run, among the runnable ones; `current` runs now, or did until just now.
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
