//! Iterations of loops: their initial states, when another one may follow, and bounds.

use crashproof_frontend::bitcode::MODEL_DIRECTORY;
use crashproof_frontend::bitcode::ir::{BlockId, Callee, FunctionId, Op, Place, Terminator};
use crashproof_ordersat::solver::Stop as Limit;
use crashproof_prove::program::Action;

use crate::block_order::Order;
use crate::frame::{Frame, Round};
use crate::machine::{Machine, Who};
use crate::options::LoopName;
use crate::records;
use crate::state::State;
use crate::value::{self, Value};

/// Unavoidable iterations of a loop are bounded by this rather than by the user.
const MOST_ROUNDS: u32 = 10_000;

/// Separates the loop from its bound in the reason for cutting it off.
const CUT: &str = " goes round more than";

/// The truncated loop named in a reason, by file and line.
pub(crate) fn cut_loop(reason: &str) -> Option<(&str, u32)> {
    let (place, _) = reason.strip_prefix("the loop at ")?.split_once(CUT)?;
    let (file, line) = place.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

impl Machine<'_> {
    /// The limit that execution has hit, as a sentence.
    pub(crate) fn limit_hit(&mut self) -> Option<&'static str> {
        // Checking takes a system call.
        const SELDOM: u32 = 256;
        self.blocks_executed = self.blocks_executed.wrapping_add(1);
        if self.limit.is_none() && self.blocks_executed.is_multiple_of(SELDOM) {
            self.limit = self.options.limits.hit();
        }
        self.limit.map(|limit| match limit {
            Limit::Memory => "there was not enough memory to unroll the program further (--memory)",
            Limit::Interrupted => "interrupted while the program was unrolled",
            Limit::Time | Limit::Conflicts => "there was no time to unroll the program further (--timeout)",
        })
    }

    /// Sets the values that depend on the incoming edge.
    pub(crate) fn enter(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        block: BlockId,
        rounds: &[u32],
        state: &mut State,
        phis: Vec<Value>,
    ) {
        let no = self.terms.truth(false);
        state.dirty.resize(frame.depth + rounds.len(), no);
        self.loops.truncate(frame.depth);
        self.loops.extend(rounds);
        let code = &self.module.function(frame.function).blocks[block.0 as usize];
        for (phi, value) in code.phis.iter().zip(&phis) {
            frame.values[phi.result.0 as usize] = Some(value.clone());
        }
        let Some(&inner) = order.nest(block).loops.last() else { return };
        if order.loops[inner].header != block {
            return;
        }
        let before = frame.rounds.remove(&inner);
        let uncertain = match before {
            Some(round) if rounds.last() != Some(&0) => round.uncertain + u32::from(round.left),
            _ => 0,
        };
        if let Some(flag) = state.dirty.last_mut() {
            *flag = no;
        }
        let (memory, held) = (state.memory.clone(), state.held.clone());
        let round = Round { memory, phis, held, left: false, uncertain };
        frame.rounds.insert(inner, round);
    }

    /// Records which loops can be left here.
    pub(crate) fn leave(&self, frame: &mut Frame, order: &Order, from: BlockId, stays: &[usize]) {
        for index in order.nest(from).loops.iter().filter(|index| !stays.contains(index)) {
            if let Some(round) = frame.rounds.get_mut(index) {
                round.left = true;
            }
        }
    }

    /// Prepares another iteration; returns whether any path takes it.
    pub(crate) fn next_round(
        &mut self,
        frame: &mut Frame,
        order: &Order,
        index: usize,
        next: u32,
        state: &mut State,
        phis: &[Value],
    ) -> bool {
        let Some(round) = frame.rounds.get_mut(&index) else { return true };
        let head = &order.loops[index];
        // An iteration that changed nothing and leaves nothing different behind is waiting: the next one would be
        // identical, so considering the last one suffices.
        let level = frame.depth + order.nest(head.header).loops.len() - 1;
        let mut goes_nowhere = false;
        if !state.memory.differs(&round.memory) && state.held.same_as(&round.held) {
            let mut changed = state.dirty[level];
            goes_nowhere = round.phis == phis;
            for (old, new) in round.phis.iter().zip(phis) {
                let same = value::equal(&mut self.terms, old, new);
                let different = self.terms.not(same);
                changed = self.terms.or(changed, different);
            }
            if self.helpers.current.is_some() {
                let stays = self.terms.not(changed);
                self.waits_for_others(state, stays, &head.place, frame.function);
            } else if self.who == Who::Recovery {
                // Nobody is there to wait for.
                let message = "recovery terminates".to_owned();
                let action = Action::Assert { condition: changed, message };
                let place = head.place.clone();
                if self.emit(state, action, &place, frame.function).is_err() {
                    return false;
                }
            }
            if !state.assume(&mut self.terms, changed) {
                return false;
            }
        }
        let code = self.module.function(frame.function);
        let bound = self
            .options
            .loops
            .iter()
            .find(|bound| match &bound.which {
                LoopName::Line { file, line } => {
                    head.place.line == *line && head.place.file.ends_with(file.as_str())
                }
                LoopName::Index { function, index: number } => code.name == *function && index == *number,
            })
            .map_or_else(|| self.usual_bound(&head.place), |bound| bound.bound);
        // A loop that cannot be left and makes no progress is endless; iterating up to the bound is pointless.
        round.left |= goes_nowhere;
        let uncertain = round.uncertain + u32::from(round.left);
        let what = format!("loop at {}:{}", head.place.file, head.place.line);
        if uncertain > 0 {
            self.bounds.insert(what.clone(), bound.into());
        }
        if uncertain > bound || next > MOST_ROUNDS {
            // Nothing more is claimed about it.
            if state.unfollowed {
                return false;
            }
            let rounds = if uncertain > bound { bound } else { MOST_ROUNDS };
            self.cut = true;
            let reason = format!("the {what}{CUT} {rounds} times (--unwind)");
            let place = head.place.clone();
            self.unknown(state, &reason, &place, frame.function);
            return false;
        }
        true
    }

    /// The default bound on a loop's iterations.
    pub(crate) fn usual_bound(&self, place: &Place) -> u32 {
        if place.file.starts_with(MODEL_DIRECTORY) {
            self.usual_bound_of_models()
        } else {
            self.options.unwind
        }
    }

    /// Whether a block only fails: going there does not count as leaving the enclosing loops, because nothing follows
    /// it.
    pub(crate) fn only_fails(&self, function: FunctionId, block: BlockId) -> bool {
        self.ends_with_call(function, block, records::fails)
    }

    /// Whether a block is the failure of one of the program's own claims.
    pub(crate) fn only_claims(&self, function: FunctionId, block: BlockId) -> bool {
        self.ends_with_call(function, block, records::is_claim)
    }

    fn ends_with_call(&self, function: FunctionId, block: BlockId, called: fn(&str) -> bool) -> bool {
        let block = &self.module.function(function).blocks[block.0 as usize];
        matches!(block.terminator, Terminator::Unreachable)
            && block.instructions.iter().any(|instruction| match &instruction.op {
                Op::Call { callee: Callee::Function(callee), .. } => {
                    called(&self.module.function(*callee).name)
                }
                _ => false,
            })
    }
}
