//! Random crashes, for programs that are too large to exhaust.
//!
//! A draw is a place to crash, each as likely as any other, and a content for every line that is open there, each
//! of those the model allows as likely as any other. Recovery is followed down the one way it then goes, and
//! crashed at random in its turn if several crashes in a row are wanted. All of it follows from the seed.

use std::collections::BTreeMap;

use crashproof_protocol::Record;
use num_bigint::BigUint;
use px86::Platform;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

use crate::crash::{Chosen, CrashState, Later};
use crate::options::Random;
use crate::robustness::had_read;
use crate::schedule::Schedule;
use crate::timeline::Timeline;
use crate::tree::Outcome;
use crate::worker::{Stop, Worker};

/// The draws of a check, by the place at which they crash.
pub(crate) struct Draws {
    /// Each with its chances, the place already drawn from them.
    by_place: BTreeMap<usize, Vec<Pcg64>>,
}

impl Draws {
    pub(crate) fn new(random: Random, schedule: Schedule, places: usize) -> Draws {
        let mut by_place: BTreeMap<usize, Vec<Pcg64>> = BTreeMap::new();
        if places > 0 {
            for draw in 0..random.crashes {
                let mut chances = generator(random.seed, schedule, draw);
                let place = chances.random_range(0..places);
                by_place.entry(place).or_default().push(chances);
            }
        }
        Draws { by_place }
    }

    /// The draws that crash at a place.
    fn at(&self, place: usize) -> &[Pcg64] {
        self.by_place.get(&place).map_or(&[], Vec::as_slice)
    }
}

/// Where a draw's chances come from: a stream of its own, so that draws do not depend on each other's order.
fn generator(seed: u64, schedule: Schedule, draw: u64) -> Pcg64 {
    let stream = u128::from(schedule.seed) << 64 | u128::from(draw);
    // Small seeds make generators whose first numbers are alike; spread out they do not.
    let mut spread = Pcg64::seed_from_u64(seed);
    let state = u128::from(spread.next_u64()) << 64 | u128::from(spread.next_u64());
    let mut generator = Pcg64::new(state, stream);
    generator.next_u64();
    generator
}

/// How many places there are to crash a run, and how many crashes an eager checker would try there.
pub(crate) fn count(platform: &Platform, files_created: u64, records: &[Record]) -> (usize, BigUint) {
    let mut timeline = Timeline::first(platform, files_created);
    let (mut places, mut crashes) = (0, BigUint::ZERO);
    loop {
        if timeline.is_crash_point(records) {
            places += 1;
            crashes += timeline.eager_states();
            timeline.crashed();
        }
        let Some(next) = records.get(timeline.at) else { return (places, crashes) };
        timeline.advance(next);
    }
}

impl Worker<'_> {
    /// The power fails here as often as was drawn.
    pub(crate) fn random_crashes(
        &mut self,
        timeline: &Timeline,
        draws: &Draws,
        place: usize,
    ) -> Result<(), Stop> {
        let drawn = draws.at(place);
        self.check.common().statistics.failure_points += u64::from(!drawn.is_empty());
        for chances in drawn {
            let mut chances = chances.clone();
            self.recoveries = 0;
            match self.random_crash(&self.crashed(timeline), &mut chances) {
                Ok(()) | Err(Stop::Crash) => {}
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    /// The power fails, and something survives that the model allows.
    fn random_crash(&mut self, state: &CrashState, chances: &mut Pcg64) -> Result<(), Stop> {
        if self.check.common().stopped {
            return Err(Stop::Limit);
        }
        self.within_time()?;
        self.check.options.monitor.crashed(state.first.at, self.check.common().findings.len());
        let mut lines: Vec<_> = state.open_lines().into_iter().collect();
        lines.sort_unstable();
        let mut chosen = Chosen::default();
        for line in lines {
            let contents = state.contents(line, self.session.image_line(line));
            chosen.insert(line, contents[chances.random_range(0..contents.len())].bytes);
        }
        let Some(followed) = self.follow_chosen(state, &chosen)? else { return Ok(()) };
        self.check.common().statistics.recoveries_saved += u64::from(followed.known);
        self.leaf(state, followed.outcome, &followed.revealed, &followed.reads);
        self.note_other_reads(state, &followed);
        if state.crashes() >= self.check.options.crashes {
            return Ok(());
        }
        let Outcome { writes, ignored, .. } = self.check.common().tree.outcomes[followed.outcome].clone();
        let Some(records) = writes else { return Ok(()) };
        let history = self.check.history(&records);
        let places = recovery_places(&self.check.options.platform, state.last(), &records);
        if places == 0 {
            return Ok(());
        }
        let wanted = chances.random_range(0..places);
        let mut place = 0;
        let mut timeline = Timeline::after(&self.check.options.platform, state.last());
        let mut persisted = FxHashMap::default();
        loop {
            if timeline.is_crash_point(&records) {
                if place == wanted {
                    let mut again = state.clone();
                    let reads = had_read(&records[..timeline.at], &followed.reads, &ignored);
                    again.later.push(Later {
                        revealed: &followed.revealed,
                        timeline: &timeline,
                        persisted: &persisted,
                        history: &history,
                        reads: &reads,
                        records: &records,
                    });
                    self.check.common().statistics.failure_points += 1;
                    return self.random_crash(&again, chances);
                }
                place += 1;
                timeline.crashed();
            }
            let Some(next) = records.get(timeline.at) else { return Ok(()) };
            timeline.advance_into(next, &mut persisted);
        }
    }
}

/// How many places there are to crash a recovery.
fn recovery_places(platform: &Platform, before: &Timeline, records: &[Record]) -> usize {
    let mut timeline = Timeline::after(platform, before);
    let mut places = 0;
    loop {
        if timeline.is_crash_point(records) {
            places += 1;
            timeline.crashed();
        }
        let Some(next) = records.get(timeline.at) else { return places };
        timeline.advance(next);
    }
}
