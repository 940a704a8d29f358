//! Random crashes, for programs that are too large to explore exhaustively.
//!
//! A draw is a crash point, uniformly distributed, and a content for every line that is open there, uniform among those
//! the model allows. Recovery is followed down the one path it then takes, and crashed at random in turn if several
//! consecutive crashes are wanted. All of it is determined by the seed.

use crashproof_protocol::Record;
use num_bigint::BigUint;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::crash::{Chosen, CrashState, Later, Persisted, Revealed, Timeline, had_read};
use crate::search::shared_state::Stop;
use crate::search::worker::Worker;
use crate::subject::{Schedule, Subject};

/// Random crashes instead of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// Number of crashes per schedule.
    pub crashes: u64,
    /// The seed.
    pub seed: u64,
}

/// The draws of a check: each in its own part of the run, so that they are spread evenly. They are made when their
/// crash point is reached.
pub(crate) struct Draws {
    random: Random,
    schedule: Schedule,
    points: u64,
}

impl Draws {
    pub(crate) fn new(random: Random, schedule: Schedule, points: usize) -> Draws {
        Draws { random, schedule, points: points as u64 }
    }

    /// The draws that crash at a point, each with its generator, from which the crash point has already been drawn.
    fn at(&self, point: usize) -> impl Iterator<Item = Pcg64> + use<'_> {
        let (points, crashes) = (u128::from(self.points), u128::from(self.random.crashes));
        let point = point as u128;
        // Those whose part of the run contains the point.
        let first = point * crashes / points;
        let last = ((point + 1) * crashes).div_ceil(points).min(crashes);
        (first..last).filter_map(move |draw| {
            let mut generator = generator(self.random.seed, self.schedule, draw as u64);
            const WHOLE: u128 = 1 << 32;
            let within = u128::from(generator.random_range(0..WHOLE as u64));
            let drawn = (draw * WHOLE + within) * points / (crashes * WHOLE);
            (drawn == point).then_some(generator)
        })
    }
}

/// The generator of a draw: a separate stream, so that the order of draws does not matter.
fn generator(seed: u64, schedule: Schedule, draw: u64) -> Pcg64 {
    let stream = u128::from(schedule.seed) << 64 | u128::from(draw);
    // Small seeds give generators with similar first numbers; expanded seeds do not.
    let mut spread = Pcg64::seed_from_u64(seed);
    let state = u128::from(spread.next_u64()) << 64 | u128::from(spread.next_u64());
    let mut generator = Pcg64::new(state, stream);
    generator.next_u64();
    generator
}

/// The number of crash points of a timeline from here on, and of crash states that brute force would try there.
pub(crate) fn count(mut timeline: Timeline, records: &[Record]) -> (usize, BigUint) {
    let (mut points, mut states) = (0, BigUint::ZERO);
    loop {
        if timeline.is_crash_point(records) {
            points += 1;
            states += timeline.eager_states();
            timeline.crashed();
        }
        let Some(next) = records.get(timeline.at) else { return (points, states) };
        timeline.advance(next);
    }
}

impl<S: Subject> Worker<'_, S> {
    /// Crashes here, once for each draw.
    pub(crate) fn random_crashes(
        &mut self,
        timeline: &Timeline,
        draws: &Draws,
        point: usize,
    ) -> Result<(), Stop> {
        for (number, mut generator) in draws.at(point).enumerate() {
            self.search.shared().statistics.failure_points += u64::from(number == 0);
            self.recoveries = 0;
            match self.random_crash(&self.crashed(timeline), &mut generator) {
                Ok(()) | Err(Stop::Crash) => {}
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    /// Crashes with a random state that the model allows.
    fn random_crash(&mut self, state: &CrashState, generator: &mut Pcg64) -> Result<(), Stop> {
        if self.search.shared().stopped {
            return Err(Stop::Limit);
        }
        self.search.within_time()?;
        self.search.observer.crashed(state.first.at);
        let mut lines: Vec<_> = state.open_lines().into_iter().collect();
        lines.sort_unstable();
        let (mut chosen, mut fixed) = (Chosen::default(), Revealed::default());
        for line in lines {
            let contents = state.contents_given(line, &fixed, |line| self.subject.image_line(line));
            let content = &contents[generator.random_range(0..contents.len())];
            chosen.insert(line, content.bytes);
            // Contents that survive together must be consistent.
            fixed.insert(line, vec![content.clone()]);
        }
        let Some(followed) = self.follow_chosen(state, &|_, line| chosen[&line])? else { return Ok(()) };
        let (threads, outcome) = {
            let mut shared = self.search.shared();
            shared.statistics.recoveries_saved += u64::from(followed.known);
            (shared.recovery_has_threads, shared.tree.outcome(followed.outcome))
        };
        self.leaf(state, &followed.revealed, &followed.path, &outcome)?;
        let reads = followed.path.reads();
        if !threads {
            let observer = self.search.observer;
            self.recovered(state, &followed.revealed, &reads, &outcome, &mut |recovered| {
                observer.sampled(recovered, &followed.checksummed);
            });
        }
        if state.crashes() >= self.search.settings.crashes {
            return Ok(());
        }
        let Some(records) = &outcome.writes else { return Ok(()) };
        let platform = &self.search.settings.platform;
        let (points, _) = count(Timeline::after(platform, state.last()), records);
        if points == 0 {
            return Ok(());
        }
        let wanted = generator.random_range(0..points);
        let mut timeline = Timeline::after(platform, state.last());
        let mut persisted = Persisted::default();
        let mut point = 0;
        loop {
            if timeline.is_crash_point(records) {
                if point == wanted {
                    let history = self.search.history(records);
                    let reads = had_read(&records[..timeline.at], &reads, &outcome.ignored);
                    let again = state.then(Later {
                        revealed: &followed.revealed,
                        timeline: &timeline,
                        persisted: &persisted,
                        history: &history,
                        reads: &reads,
                        records,
                    });
                    self.search.shared().statistics.failure_points += 1;
                    return self.random_crash(&again, generator);
                }
                point += 1;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            timeline.advance_into(next, &mut persisted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_has_one_crash_point() {
        for (crashes, points) in [(1, 1), (1000, 7), (7, 1000), (64, 64), (3, 100_000)] {
            let draws = Draws::new(Random { crashes, seed: 5 }, Schedule::default(), points);
            let all: u64 = (0..points).map(|point| draws.at(point).count() as u64).sum();
            assert_eq!(all, crashes, "{points} crash points");
        }
    }
}
