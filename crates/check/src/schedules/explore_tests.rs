//! The classic families as programs in memory, compared with the theoretical numbers of Mazurkiewicz traces.

use std::collections::BTreeSet;

use crashproof_protocol::steps::{Access, AccessKind, Actor};

use super::{Explorer, Plan, Step, dependent};

/// A small program: memory, and threads as functions of their progress.
#[derive(Clone)]
struct Program {
    memory: Vec<i64>,
    threads: Vec<Thread>,
}

#[derive(Clone)]
struct Thread {
    at: usize,
    local: i64,
    next: fn(usize, &mut Thread, &mut [i64]) -> Next,
}

enum Next {
    /// A step that made these accesses.
    Did(Vec<Access>),
    Ended,
}

fn read(at: usize) -> Access {
    Access::new(AccessKind::Read, 8 * at as u64, 8)
}

fn write(at: usize) -> Access {
    Access::new(AccessKind::Write, 8 * at as u64, 8)
}

/// The next action of a thread.
type Body = fn(usize, &mut Thread, &mut [i64]) -> Next;

impl Program {
    fn new(memory: usize, threads: Vec<Body>) -> Program {
        let threads = threads.into_iter().map(|next| Thread { at: 0, local: 0, next }).collect();
        Program { memory: vec![0; memory], threads }
    }

    fn try_step(&mut self, number: usize) -> Option<Vec<Access>> {
        let mut thread = self.threads[number].clone();
        match (thread.next)(number, &mut thread, &mut self.memory) {
            Next::Ended => None,
            Next::Did(accesses) => {
                thread.at += 1;
                self.threads[number] = thread;
                Some(accesses)
            }
        }
    }

    fn enabled(&self) -> Vec<Actor> {
        let runs = |&number: &usize| self.clone().try_step(number).is_some();
        (0..self.threads.len()).filter(runs).map(|number| number as Actor).collect()
    }

    /// Runs a plan as the runtime does; returns whether it completed.
    fn run(mut self, plan: &Plan) -> (Vec<Step>, bool) {
        let (mut steps, mut sleeping) = (Vec::new(), Vec::new());
        loop {
            let enabled = self.enabled();
            if enabled.is_empty() {
                return (steps, true);
            }
            let index = steps.len();
            if index + 1 >= plan.decisions.len() && index == plan.decisions.len().saturating_sub(1) {
                sleeping.clone_from(&plan.sleeping);
            }
            let awake = |actor: &&Actor| !sleeping.iter().any(|(sleeper, _)| sleeper == *actor);
            let actor = match plan.decisions.get(index) {
                Some(&actor) => actor,
                None => match enabled.iter().find(awake) {
                    Some(&actor) => actor,
                    None => return (steps, false),
                },
            };
            let accesses = self.try_step(actor as usize).expect("it is enabled");
            sleeping.retain(|(sleeper, theirs)| !dependent((*sleeper, theirs), (actor, &accesses)));
            steps.push(Step { actor, accesses, after: Vec::new(), enabled });
        }
    }
}

/// Explores everything: complete schedules, redundant ones, and final memories.
fn explore(program: &Program) -> (usize, usize, BTreeSet<Vec<i64>>) {
    let mut explorer = Explorer::default();
    let (mut complete, mut redundant, mut ends) = (0, 0, BTreeSet::new());
    while let Some(plan) = explorer.next() {
        let mut last = program.clone();
        let (steps, ended) = program.clone().run(&plan);
        if ended {
            complete += 1;
            steps.iter().for_each(|step| drop(last.try_step(step.actor as usize)));
            ends.insert(last.memory);
        } else {
            redundant += 1;
        }
        explorer.learn(steps).expect("programs in memory are repeatable");
        assert!((0.0..=1.0 + 1e-9).contains(&explorer.explored()));
    }
    (complete, redundant, ends)
}

/// Enumerates every interleaving, for comparison: the number of traces, and the final memories.
fn brute_force(program: &Program) -> (usize, BTreeSet<Vec<i64>>) {
    fn go(
        program: &Program,
        path: &mut Vec<Step>,
        traces: &mut BTreeSet<Vec<u64>>,
        ends: &mut BTreeSet<Vec<i64>>,
    ) {
        let enabled = program.enabled();
        if enabled.is_empty() {
            // A trace by its happens-before: for each step of each thread, the steps before it.
            let order = super::Order::of(path);
            let name = |step: usize| {
                let actor = path[step].actor;
                let nth = path[..step].iter().filter(|other| other.actor == actor).count() as u64;
                actor * 1000 + nth
            };
            let mut edges: Vec<u64> = (0..path.len())
                .flat_map(|step| order.before[step].iter().map(move |before| (before, step)))
                .map(|(before, step)| name(before) * 1_000_000 + name(step))
                .collect();
            edges.sort_unstable();
            traces.insert(edges);
            ends.insert(program.memory.clone());
        }
        for actor in enabled {
            let mut next = program.clone();
            let accesses = next.try_step(actor as usize).expect("it is enabled");
            path.push(Step { actor, accesses, ..Step::default() });
            go(&next, path, traces, ends);
            path.pop();
        }
    }
    let (mut traces, mut ends) = (BTreeSet::new(), BTreeSet::new());
    go(program, &mut Vec::new(), &mut traces, &mut ends);
    (traces.len(), ends)
}

fn writer(number: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    if thread.at > 0 {
        return Next::Ended;
    }
    memory[0] = number as i64 + 1;
    Next::Did(vec![write(0)])
}

fn reader(_: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    if thread.at > 0 {
        return Next::Ended;
    }
    thread.local = memory[0];
    Next::Did(vec![read(0)])
}

#[test]
fn writers_of_one_variable_have_as_many_traces_as_orders() {
    for (count, traces) in [(1, 1), (2, 2), (3, 6), (4, 24), (5, 120)] {
        let (complete, ..) = explore(&Program::new(1, vec![writer; count]));
        assert_eq!(complete, traces, "{count} writers: n!");
    }
}

#[test]
fn readers_and_a_writer_have_a_trace_for_each_set_that_reads_first() {
    for count in 0..8 {
        let mut threads: Vec<Body> = vec![reader; count];
        threads.push(writer);
        let (complete, ..) = explore(&Program::new(1, threads));
        assert_eq!(complete, 1 << count, "{count} readers and a writer: 2^n");
    }
}

/// lastzero(n) (Abdulla et al., figure 3): thread 0 searches for the last zero, the others write.
fn lastzero(number: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    let n = memory.len() - 1;
    if number == 0 {
        let at = n - thread.at.min(n);
        if thread.at > n || thread.local == 1 {
            return Next::Ended;
        }
        thread.local = i64::from(memory[at] == 0);
        return Next::Did(vec![read(at)]);
    }
    match thread.at {
        0 => {
            thread.local = memory[number - 1];
            Next::Did(vec![read(number - 1)])
        }
        1 => {
            memory[number] = thread.local + 1;
            Next::Did(vec![write(number)])
        }
        _ => Next::Ended,
    }
}

#[test]
fn lastzero_has_the_number_of_traces_that_brute_force_counts() {
    for n in [2, 3] {
        let program = Program::new(n + 1, vec![lastzero; n + 1]);
        let (traces, ends) = brute_force(&program);
        let (complete, _, found) = explore(&program);
        assert_eq!((complete, found), (traces, ends), "lastzero({n})");
    }
    // The papers' numbers for 5 and 10.
    for (n, traces) in [(5, 64), (10, 3328)] {
        assert_eq!(explore(&Program::new(n + 1, vec![lastzero; n + 1])).0, traces, "lastzero({n})");
    }
}

/// indexer(n) (Flanagan and Godefroid): threads put 4 messages each into a hash table of 128.
fn indexer(number: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    const SIZE: usize = 128;
    // `local` is message number * SIZE + probes.
    let (message, probes) = (thread.local as usize / SIZE, thread.local as usize % SIZE);
    if message == 4 {
        return Next::Ended;
    }
    let word = (message + 1) * 11 + number;
    let at = (word * 7 + probes) % SIZE;
    if memory[at] == 0 {
        memory[at] = word as i64;
        thread.local = ((message + 1) * SIZE) as i64;
    } else {
        thread.local += 1;
    }
    Next::Did(vec![write(at)])
}

#[test]
fn indexer_has_one_trace_until_its_threads_collide() {
    for (threads, traces) in [(2, 1), (11, 1), (12, 8), (13, 64), (14, 512)] {
        let (complete, ..) = explore(&Program::new(128, vec![indexer; threads]));
        assert_eq!(complete, traces, "indexer({threads})");
    }
}

/// filesystem(n) (Flanagan and Godefroid): inodes and blocks, each behind a lock; a lock is a step here.
fn filesystem(number: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    const INODES: usize = 32;
    const BLOCKS: usize = 26;
    // Memory: inodes, then busy. `local` is the number of blocks tried, or -1 when done.
    let inode = number % INODES;
    match thread.at {
        0 => {
            if memory[inode] != 0 {
                thread.local = -1;
            }
            Next::Did(vec![write(inode)])
        }
        _ if thread.local < 0 => Next::Ended,
        _ => {
            let block = INODES + (inode * 2 + thread.local as usize) % BLOCKS;
            if memory[block] == 0 {
                memory[block] = 1;
                memory[inode] = block as i64;
                thread.local = -1;
            } else {
                thread.local += 1;
            }
            Next::Did(vec![write(block)])
        }
    }
}

#[test]
fn filesystem_has_one_trace_until_its_threads_collide() {
    for (threads, traces) in [(13, 1), (14, 2), (16, 8), (18, 32), (19, 64)] {
        let (complete, ..) = explore(&Program::new(58, vec![filesystem; threads]));
        assert_eq!(complete, traces, "filesystem({threads})");
    }
}

/// A thread of a random program: it reads and writes three variables, which determine what comes next.
fn arbitrary(number: usize, thread: &mut Thread, memory: &mut [i64]) -> Next {
    if thread.at == 3 {
        return Next::Ended;
    }
    let seed = memory[3] as u64;
    let bits = (seed ^ (thread.local as u64 * 31 + number as u64 * 7 + thread.at as u64))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let at = (bits >> 33) as usize % 3;
    if bits >> 60 & 1 == 0 {
        thread.local = thread.local * 5 + memory[at];
        Next::Did(vec![read(at)])
    } else {
        memory[at] = (number * 10 + thread.at) as i64 + 1;
        Next::Did(vec![write(at)])
    }
}

#[test]
fn random_programs_have_the_traces_that_brute_force_counts() {
    for seed in 0..60 {
        let mut program = Program::new(4, vec![arbitrary; 3]);
        program.memory[3] = seed;
        let (traces, ends) = brute_force(&program);
        let (complete, _, found) = explore(&program);
        assert_eq!(complete, traces, "seed {seed}");
        assert_eq!(found, ends, "seed {seed}");
    }
}
