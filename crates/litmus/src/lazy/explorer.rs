//! Jaaru's Explore (Figure 11), over all schedules.
//!
//! # What is chosen
//!
//! Which thread's load or locked instruction runs next, and which buffered store, `clflush` or fence takes effect next;
//! after a crash also which store a load reads from. Everything else touches only a thread's own buffer, or (a
//! `clflushopt`) has an effect independent of its timing, and is done immediately. A single-threaded program has no
//! choices of the first kind except for non-temporal stores.
//!
//! # Where it crashes
//!
//! Just before an operation that makes something certain, if anything was stored since the last crash point, and at the
//! end. Until then the set of possible survivors only grows.
//!
//! # Revisited states
//!
//! If the subject can say what determines its future, schedules that lead to the same state (program,
//! buffers, what each line may hold, what happened before what) are followed once.

use std::rc::Rc;

use px86::buffer::StoreBuffer;
use px86::survive::CrashStack;
use px86::{Line, Platform, Site};
use rustc_hash::FxHashSet;

use crate::answer::Interrupt;
use crate::lazy::observer::{Crash, Figures, Happened, Limit, Observer, Past, What};
use crate::lazy::subject::{Next, Program, Subject};
use crate::lazy::world::{Branch, Choice, World};

/// How to explore.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many crashes in a row.
    pub crashes: usize,
    /// The persistence domain of each line.
    pub platform: Platform,
    /// How many states to visit before giving up.
    pub states: u64,
    /// How many bytes to remember of visited states before giving up.
    pub bytes: usize,
    /// A way to interrupt the exploration, if any.
    pub interrupt: Option<&'static Interrupt>,
}

/// Explores `program` from `memory` (addresses and bytes; all else is zero) and reports to `observer`.
pub fn explore<P: Program>(
    program: &P,
    memory: &[(u64, Vec<u8>)],
    settings: Settings,
    observer: &mut impl Observer,
) -> Figures {
    let mut stack = CrashStack::default();
    for (address, bytes) in memory {
        stack.set_initial(*address, bytes);
    }
    let mut figures = Figures::default();
    let Some(subject) = program.start(0) else { return figures };
    let mut visited: FxHashSet<Box<[u8]>> = FxHashSet::default();
    let mut visited_bytes = 0;
    let mut work = vec![World::new(subject, stack, &settings.platform)];
    while let Some(mut world) = work.pop() {
        if figures.states == settings.states {
            figures.limit = Some(Limit::States);
            break;
        }
        if let Some(why) = settings.interrupt.and_then(Interrupt::asked) {
            figures.limit = Some(Limit::Interrupted(why));
            break;
        }
        if visited_bytes > settings.bytes {
            figures.limit = Some(Limit::Bytes);
            break;
        }
        if observer.satisfied() {
            break;
        }
        world.settle();
        if world.crashes == 0 {
            if let Some(key) = world.key() {
                let bytes = key.len() + 32;
                if !visited.insert(key) {
                    continue;
                }
                visited_bytes += bytes;
            }
            observer.memory(&world.execution);
        }
        figures.states += 1;
        let mut explorer =
            Explorer { program, settings: &settings, observer, figures: &mut figures, work: &mut work };
        explorer.step(world);
    }
    figures
}

struct Explorer<'a, P: Program, O> {
    program: &'a P,
    settings: &'a Settings,
    observer: &'a mut O,
    figures: &'a mut Figures,
    work: &'a mut Vec<World<P::Subject>>,
}

impl<P: Program, O: Observer> Explorer<'_, P, O> {
    /// Tries all possible next steps in a settled world.
    fn step(&mut self, mut world: World<P::Subject>) {
        let failed = world.failed();
        let choices = if failed.is_some() { Vec::new() } else { world.choices() };
        if choices.is_empty() {
            if let Some((thread, site)) = failed {
                world.note(thread, site, What::Failed);
            }
            if world.crashes > 0 {
                self.figures.recoveries += 1;
                self.observer.recovered(failed.map(|(_, site)| site), &world.path);
            }
            if world.written {
                self.crash(&world);
            }
            return;
        }
        let mut crashed = false;
        for choice in choices {
            let persists = world.persists(choice);
            if persists && world.written && !crashed {
                self.crash(&world);
                crashed = true;
            }
            let mut next = world.clone();
            next.written &= !persists;
            match choice {
                Choice::Leave(thread, index) => {
                    next.leave(thread, index);
                    self.work.push(next);
                }
                Choice::Run(thread) => self.run(next, thread),
            }
        }
    }

    fn run(&mut self, mut world: World<P::Subject>, thread: usize) {
        match world.subject.next(thread) {
            Next::Load { address, width, site } => {
                self.branch(world, thread, address, width, |world, value, branch| {
                    world.load(thread, address, width, site, value, branch);
                })
            }
            Next::Exchange { address, width, .. } => {
                self.branch(world, thread, address, width, |world, old, branch| {
                    world.exchange(thread, old, branch);
                });
            }
            Next::Act { event, .. } => {
                world.fence(thread, event.site);
                self.work.push(world);
            }
            Next::Done | Next::Failed(_) => {}
        }
    }

    /// Follows a load into every value it may give.
    fn branch(
        &mut self,
        mut world: World<P::Subject>,
        thread: usize,
        address: u64,
        width: u8,
        complete: impl Fn(&mut World<P::Subject>, u64, Option<&Branch>),
    ) {
        let (own, missing) = world.own_bytes(thread, address, width);
        if missing == 0 {
            complete(&mut world, own, None);
            self.work.push(world);
            return;
        }
        for branch in world.branches(address, width, missing) {
            let mut next = world.clone();
            // Litmus robustness is judged on the first recovery; deeper ones only look for failures.
            if next.crashes == 1
                && let Err(violation) = next.observe(address, width, &branch)
            {
                let mut stack = next.stack.clone();
                stack.retain(Line::containing(address), |_, state| branch.states.contains(state));
                self.observer.violation(violation, &mut stack, &next.path);
            }
            complete(&mut next, own | branch.value, Some(&branch));
            self.work.push(next);
        }
    }

    /// Crashes here.
    fn crash(&mut self, world: &World<P::Subject>) {
        if world.crashes == self.settings.crashes {
            return;
        }
        self.figures.failure_points += 1;
        let mut stack = world.stack.clone();
        stack.crash(world.execution.clone());
        self.figures.eager_states += stack.eager_states();
        let waiting = world
            .buffers
            .iter()
            .flat_map(StoreBuffer::entries)
            .filter(|entry| entry.event.kind.stores())
            .copied()
            .collect();
        let mut past = world.past.clone();
        past.push(Past { clocks: Rc::new(world.clocks.clone()), waiting: Rc::new(waiting) });
        let crashes = world.crashes + 1;
        let mut path = world.path.clone();
        path.push(Happened { thread: 0, site: Site(0), what: What::Crashed });
        let recover = self.observer.crash(Crash { crashes, stack: &mut stack, past: &past, path: &path });
        if !recover {
            return;
        }
        let Some(subject) = self.program.start(crashes) else { return };
        let fresh = World::new(subject, stack, &self.settings.platform);
        self.work.push(World {
            past,
            crashes,
            path,
            written: false,
            intervals: world.intervals.clone(),
            ..fresh
        });
    }
}
