//! Robustness, after PMVerify's Algorithm 1: does every crash leave a memory that occurs in a run without crashes?
//!
//! Memories are compared write by write (the paper keeps the recovery observer's reads-from), which is the sense
//! `event` of [`crashproof_litmus::answer::Robust`]: it implies the sense of the paper's Definition 6, which compares
//! values.
//!
//! Two formulas over the same program are solved alternately. The first has the model's crash: one time P per line, and
//! an observer of all persistent memory. The second is x86-TSO with the observer as an atomic block: one time P for
//! everything, which corresponds to persistent caches. A memory of the first that the second cannot reach is a
//! violation; if the second can reach it, that memory is excluded and the first is solved again.
//!
//! Most memories never need this: the first formula is restricted to executions that are not their own witness. An
//! execution passes through the memory of its survivors unless a lost store is ordered before a survivor, so the
//! formula demands one that is. If there is none, the program is robust and the second formula is not needed.
//!
//! A violation is reported with a minimal set of memory pieces that x86-TSO cannot reach.

use std::time::Instant;

use crashproof_ordersat::limited::Limited;
use crashproof_ordersat::{Limits, Lit, Outcome};
use px86::Domain;
use rustc_hash::FxHashMap;

use crate::confirm::confirm;
use crate::encode::{CROSSES_LINE, Encoder, Settings, Wrong};
use crate::program::Program;
use crate::prove::{
    Error, MOST_REASONS, Options, Reason, Report, Statistics, TENTATIVE_CONFLICTS, Vacuous, Verdict,
    given_up, reached_limits, statistics, stopped, vacuous,
};
use crate::values::Analysis;

/// Is the program robust?
///
/// # Errors
///
/// As for [`crate::prove::prove`].
pub fn prove(program: &Program, options: &Options) -> Result<Report, Error> {
    if let Some(report) = given_up(program) {
        return Ok(report);
    }
    let start = Instant::now();
    // Recovery's behavior is irrelevant: the observer replaces it.
    let mut program = Program { recovery: None, ..program.clone() };
    // Volatile memory is not observed.
    for object in program.objects.iter_mut().filter(|object| object.internal) {
        object.persistent = false;
    }
    let analysis = Analysis::new(&program);
    let settings = Settings { observe_all: true, ..options.settings };
    let no_solver = || Error::NoSolver(settings.solver.name());
    // With persistent caches, the crash state is a memory of x86-TSO.
    let cached = program.with_surviving_caches();
    let encoder = |program, settings: Settings| {
        let solver = Limited::new(settings.solver.make().ok_or_else(no_solver)?, options.limits);
        Ok::<_, Error>(Encoder::for_solver(program, &analysis, settings, Box::new(solver)))
    };
    let mut crashing = encoder(&program, settings)?;
    let mut tso = encoder(&cached, Settings { domain: Domain::Eadr, ..settings })?;
    let suspects = crashing.lost_before_survivors();
    let suspicious = crashing.gates.any(&suspects);
    // If an access takes two steps, a run without crashes may pass through more states than are encoded.
    let crossing: Vec<Lit> =
        crashing.limits.iter().filter(|limit| limit.reason == CROSSES_LINE).map(|limit| limit.lit).collect();
    let crossing = crashing.gates.any(&crossing);
    let suspicious = crashing.gates.and(suspicious, !crossing);
    let mut too_far: Vec<Lit> = crashing.limits.iter().map(|limit| limit.lit).collect();
    // What follows an access outside every object is unknown, too.
    for violation in crashing.violations.clone() {
        if violation.what == Wrong::Outside {
            too_far.push(violation.lit);
            let (lit, event, site) = (violation.lit, violation.event, violation.site);
            let reason = "an access outside every object can happen here".to_owned();
            crashing.limits.push(crate::encode::Limit { lit, reason, event, site });
        }
    }
    let too_far = crashing.gates.any(&too_far);
    crashing.finish();
    tso.finish();
    let encoded = Instant::now();
    let mut candidates = 0;
    let cut_off = match options.tentative {
        true => reached_limits(&mut crashing, too_far, &options.limits, 1)?,
        false => Vec::new(),
    };
    // Truncated code may continue with larger bounds, but a counterexample that is cheap to find is valid.
    let mut patience = options.limits;
    if !cut_off.is_empty() {
        patience.conflicts = Some(TENTATIVE_CONFLICTS);
    }
    let verdict = match search(&mut crashing, &mut tso, suspicious, &patience, &mut candidates)? {
        Verdict::Holds | Verdict::Unknown(_) if !cut_off.is_empty() => Verdict::Unknown(cut_off),
        verdict => verdict,
    };
    let verdict = match verdict {
        Verdict::Holds => {
            let reasons = reached_limits(&mut crashing, too_far, &options.limits, MOST_REASONS)?;
            if reasons.is_empty() { Verdict::Holds } else { Verdict::Unknown(reasons) }
        }
        other => other,
    };
    let mut figures: Statistics = statistics(&crashing);
    let second = tso.gates.solver.statistics();
    figures.solver.conflicts += second.conflicts;
    figures.solver.propagations += second.propagations;
    figures.solver.forced += second.forced;
    figures.solver.cycles += second.cycles;
    figures.candidates = candidates;
    figures.encoding = encoded - start;
    figures.solving = encoded.elapsed();
    let (bounds, assumptions) = (program.bounds.clone(), program.assumptions.clone());
    let about_nothing = [Vacuous::NoPersistentMemory, Vacuous::NoPersistentStore];
    let vacuous = vacuous(&program, &analysis).filter(|why| about_nothing.contains(why));
    Ok(Report { verdict, bounds, assumptions, vacuous, candidate: None, statistics: figures })
}

fn search(
    crashing: &mut Encoder,
    tso: &mut Encoder,
    suspicious: Lit,
    limits: &Limits,
    candidates: &mut u64,
) -> Result<Verdict, Error> {
    loop {
        match crashing.gates.solver.solve(&[suspicious], limits) {
            Outcome::Unsatisfiable => return Ok(Verdict::Holds),
            Outcome::Unknown(stop) => return Ok(unknown(stopped(stop))),
            Outcome::Satisfiable => {}
        }
        *candidates += 1;
        // The same memory as a query for x86-TSO: for each piece its writer and value.
        let mut memory: Vec<Vec<Lit>> = Vec::new();
        let mut blocked = Vec::new();
        for (mine, theirs) in crashing.survivors.iter().zip(&tso.survivors) {
            let solver = &crashing.gates.solver;
            let Some(at) = mine.from.iter().position(|&(_, lit)| solver.value(lit)) else { continue };
            let mut same = vec![theirs.from[at].1];
            blocked.push(!mine.from[at].1);
            for (&lit, &there) in mine.bits.iter().zip(&theirs.bits) {
                let value = solver.value(lit);
                same.push(if value { there } else { !there });
                blocked.push(if value { !lit } else { lit });
            }
            memory.push(same);
        }
        let assumptions: Vec<Lit> = memory.concat();
        match tso.gates.solver.solve(&assumptions, limits) {
            Outcome::Satisfiable => crashing.gates.clause(&blocked),
            Outcome::Unknown(stop) => return Ok(unknown(stopped(stop))),
            Outcome::Unsatisfiable => {
                let needed = fewest(tso, &memory, limits);
                let mut story = crashing.execution_story()?;
                story.recovery.clear();
                let pieces: Vec<String> = needed
                    .iter()
                    .map(|&at| format!("{} = {}", story.memory[at].place, story.memory[at].shown))
                    .collect();
                story.message = format!(
                    "a crash can leave {}; no run without a crash goes through that",
                    pieces.join(" with ")
                );
                if let Some(lost) = needed.iter().find_map(|&at| story.memory[at].lost.first().copied()) {
                    story.site = story.steps[lost].site.clone();
                }
                confirm(crashing.program, &crashing.platform, &story)?;
                return Ok(Verdict::Violated(Box::new(story)));
            }
        }
    }
}

fn unknown(reason: Reason) -> Verdict {
    Verdict::Unknown(vec![reason])
}

/// A minimal set of memory pieces that x86-TSO cannot reach together, found by leaving out one after another.
fn fewest(tso: &mut Encoder, memory: &[Vec<Lit>], limits: &Limits) -> Vec<usize> {
    let blamed = tso.gates.solver.failed();
    let mut kept: Vec<usize> =
        (0..memory.len()).filter(|&at| memory[at].iter().any(|lit| blamed.contains(lit))).collect();
    let mut at = 0;
    while at < kept.len() {
        let mut fewer = kept.clone();
        fewer.remove(at);
        let assumptions: Vec<Lit> = fewer.iter().flat_map(|&piece| memory[piece].iter().copied()).collect();
        if tso.gates.solver.solve(&assumptions, limits) == Outcome::Unsatisfiable {
            kept = fewer;
        } else {
            at += 1;
        }
    }
    kept
}

impl Encoder<'_> {
    /// For every store, a literal that implies that it is lost and ordered before a survivor.
    fn lost_before_survivors(&mut self) -> Vec<Lit> {
        let survivors = self.survivors.clone();
        let mut survives: FxHashMap<u32, Vec<Lit>> = FxHashMap::default();
        for survivor in &survivors {
            for &(from, lit) in &survivor.from {
                if let Some((event, _)) = from {
                    survives.entry(self.events[event].node).or_default().push(lit);
                }
            }
        }
        let before = self.ordered_before(&survives);
        let mut overwrites: FxHashMap<(usize, usize), Vec<Lit>> = FxHashMap::default();
        for pair in &self.overwrites {
            overwrites.entry((pair.first, pair.second)).or_default().push(pair.lit);
        }
        let mut lost = Vec::new();
        for survivor in &survivors {
            for &(kept, survives) in &survivor.from {
                for &(other, _) in &survivor.from {
                    let Some((store, lane)) = other.filter(|&other| Some(other) != kept) else { continue };
                    let later = match kept {
                        Some((first, _)) => overwrites.get(&(first, store)).cloned().unwrap_or_default(),
                        None => {
                            let (writes, here) =
                                (self.writes(store), self.covers((store, lane), survivor.cell));
                            vec![self.gates.and(writes, here)]
                        }
                    };
                    let later = self.gates.any(&later);
                    let reaches = before[self.events[store].node as usize];
                    lost.push(self.gates.all(&[survives, later, reaches]));
                }
            }
        }
        lost
    }

    /// For every node, a literal that implies that it is ordered before a survivor by whatever orders events (excluding
    /// the times P), or is one. Orders are acyclic, so no path can justify itself.
    fn ordered_before(&mut self, survives: &FxHashMap<u32, Vec<Lit>>) -> Vec<Lit> {
        let nodes = self.graph.nodes();
        let moments: Vec<u32> = self.moments.values().copied().collect();
        let is_moment = |node: u32| moments.contains(&node);
        let before: Vec<Lit> = (0..nodes).map(|_| self.gates.fresh()).collect();
        let overwritten: Vec<Lit> = (0..self.graph.sources()).map(|_| self.gates.fresh()).collect();
        let mut ways: Vec<Vec<Lit>> = before.iter().map(|&lit| vec![!lit]).collect();
        let mut source_ways: Vec<Vec<Lit>> = overwritten.iter().map(|&lit| vec![!lit]).collect();
        for &(a, b) in self.graph.fixed_edges() {
            ways[a as usize].push(before[b as usize]);
        }
        for (lit, a, b) in self.graph.literal_edges().to_vec() {
            if !is_moment(b) {
                let way = self.gates.and(lit, before[b as usize]);
                ways[a as usize].push(way);
            }
        }
        for (lit, source, node) in self.graph.overwrites().to_vec() {
            let way = self.gates.and(lit, before[node as usize]);
            source_ways[source as usize].push(way);
        }
        for (lit, source, node) in self.graph.reads().to_vec() {
            if !is_moment(node) {
                let way = self.gates.and(lit, overwritten[source as usize]);
                ways[node as usize].push(way);
            }
        }
        for (node, lits) in survives {
            ways[*node as usize].extend(lits);
        }
        for moment in moments {
            self.gates.clause(&[!before[moment as usize]]);
        }
        for clause in ways.into_iter().chain(source_ways) {
            self.gates.clause(&clause);
        }
        before
    }
}
