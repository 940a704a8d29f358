//! Litmus tests as programs for the prover.

use crashproof_litmus::{BinaryOp, Code, Expr, Op, Rmw, Test, UnaryOp};
use px86::Line;
use px86::line::WORD_BYTES;

use crate::program::{Action, Claims, Event, Object, Program, Site, SiteId, Thread};
use crate::term::{Binary, Term, Terms};

/// Locations start here: address 0 is the null pointer.
const BASE: u64 = 1 << 20;

const WORD: u8 = 8 * WORD_BYTES;

/// The address of a location in the prover's memory.
pub fn address(test: &Test, location: usize) -> u64 {
    BASE + test.locations[location].address
}

/// A test as a program. Every event's index in its thread matches that of its instruction in the site list:
/// `sites[event.site.0]` belongs to instruction `instruction_of(event.site)`.
pub fn program(test: &Test) -> Program {
    let mut program = Program::default();
    for (index, location) in test.locations.iter().enumerate() {
        program.objects.push(Object {
            name: location.name.clone(),
            address: address(test, index),
            initial: location.init.to_le_bytes().map(Some).to_vec().into(),
            persistent: true,
            internal: false,
            fields: Vec::new(),
        });
    }
    let lines = (Line::containing(BASE).0..).map(Line).zip(&test.domains);
    program.domains = lines.filter_map(|(line, domain)| domain.map(|domain| (line, domain))).collect();
    for (index, code) in test.threads.iter().enumerate() {
        let thread = thread(&mut program, test, code, format!("thread {index}"), &format!("t{index}"));
        program.threads.push(thread);
    }
    if let Some(code) = &test.recover {
        let recovery = thread(&mut program, test, code, "recovery".to_owned(), "recovery");
        program.recovery = Some(recovery);
    }
    let mut events = program.threads.iter().chain(&program.recovery).flat_map(|thread| &thread.events);
    if events.any(|event| matches!(event.action, Action::Assert { .. })) {
        program.claims = Claims::Reached;
    }
    program
}

/// The state at a program counter: whether the thread reaches it, and its registers.
#[derive(Clone)]
struct State {
    guard: Term,
    registers: Vec<Term>,
}

fn thread(program: &mut Program, test: &Test, code: &Code, name: String, prefix: &str) -> Thread {
    let mut thread = Thread { name, ..Thread::default() };
    let zero = program.terms.number(0, WORD);
    let start = State { guard: program.terms.truth(true), registers: vec![zero; code.registers.len()] };
    // Jumps only go forward, so all incoming states are known when an instruction is reached.
    let mut arriving: Vec<Option<State>> = vec![None; code.instructions.len() + 1];
    arriving[0] = Some(start);
    for (index, instruction) in code.instructions.iter().enumerate() {
        let Some(mut state) = arriving[index].take() else { continue };
        let site = program.site(Site {
            line: test.line_number(instruction.span) as u32,
            text: test.text(instruction).to_owned(),
            // The instruction, so that a story can use the test's own syntax.
            column: index as u32,
            ..Site::default()
        });
        let mut emit = |action: Action, state: &State| {
            thread.events.push(Event { guard: state.guard, action, site });
        };
        let fresh = |terms: &mut Terms| terms.symbol(format!("{prefix}.{index}"), WORD);
        let place = |terms: &mut Terms, at: &crashproof_litmus::LocId| {
            terms.number(address(test, usize::from(at.0)), 64)
        };
        let terms = &mut program.terms;
        match &instruction.op {
            Op::Assign(register, value) => {
                state.registers[usize::from(register.0)] = expression(terms, value, &state.registers);
            }
            Op::Load(register, at) => {
                let (address, result) = (place(terms, at), fresh(terms));
                emit(Action::Load { address, result }, &state);
                state.registers[usize::from(register.0)] = result;
            }
            Op::Store(at, value) | Op::NonTemporal(at, value) => {
                let value = expression(terms, value, &state.registers);
                let non_temporal = matches!(instruction.op, Op::NonTemporal(..));
                emit(Action::Store { address: place(terms, at), value, non_temporal }, &state);
            }
            Op::Rmw(register, at, rmw) => {
                let (address, old) = (place(terms, at), fresh(terms));
                let (new, stores) = exchanged(terms, rmw, old, &state.registers);
                emit(Action::Rmw { address, old, new, stores }, &state);
                if let Some(register) = register {
                    state.registers[usize::from(register.0)] = old;
                }
            }
            Op::Flush(at) => emit(Action::Flush { address: place(terms, at) }, &state),
            Op::FlushOpt(at) => emit(Action::FlushOpt { address: place(terms, at) }, &state),
            Op::StoreFence => emit(Action::StoreFence, &state),
            Op::Fence => emit(Action::Fence, &state),
            Op::Assert(condition) => {
                let condition = expression(terms, condition, &state.registers);
                let condition = terms.nonzero(condition);
                let message = test.text(instruction).trim_start_matches("assert").trim().to_owned();
                emit(Action::Assert { condition, message }, &state);
                // A run ends when it fails an assertion.
                state.guard = terms.and(state.guard, condition);
            }
            Op::Jump(target) => {
                merge(terms, &mut arriving[*target], state);
                continue;
            }
            Op::JumpIfZero(condition, target) => {
                let condition = expression(terms, condition, &state.registers);
                let goes_on = terms.nonzero(condition);
                let jumps = terms.not(goes_on);
                let mut jumped = state.clone();
                jumped.guard = terms.and(state.guard, jumps);
                merge(terms, &mut arriving[*target], jumped);
                state.guard = terms.and(state.guard, goes_on);
            }
        }
        merge(&mut program.terms, &mut arriving[index + 1], state);
    }
    thread
}

/// What a locked instruction writes if it finds `old`, and whether it does.
fn exchanged(terms: &mut Terms, rmw: &Rmw, old: Term, registers: &[Term]) -> (Term, Term) {
    match rmw {
        Rmw::Cas(expected, new) => {
            let expected = expression(terms, expected, registers);
            let new = expression(terms, new, registers);
            (new, terms.equal(old, expected))
        }
        Rmw::Faa(add) => {
            let add = expression(terms, add, registers);
            (terms.binary(Binary::Add, old, add), terms.truth(true))
        }
        Rmw::Xchg(new) => (expression(terms, new, registers), terms.truth(true)),
    }
}

/// Merges two paths to the same instruction: registers have the values of the path taken.
fn merge(terms: &mut Terms, into: &mut Option<State>, other: State) {
    let Some(known) = into else {
        *into = Some(other);
        return;
    };
    for (mine, theirs) in known.registers.iter_mut().zip(other.registers) {
        *mine = terms.choose(other.guard, theirs, *mine);
    }
    known.guard = terms.or(known.guard, other.guard);
}

fn expression(terms: &mut Terms, expr: &Expr, registers: &[Term]) -> Term {
    match expr {
        Expr::Int(value) => terms.number(*value as u64, WORD),
        Expr::Variable(index) => registers[usize::from(*index)],
        Expr::Unary(UnaryOp::Negate, e) => {
            let value = expression(terms, e, registers);
            terms.negate(value)
        }
        Expr::Unary(UnaryOp::Not, e) => {
            let value = expression(terms, e, registers);
            let nonzero = terms.nonzero(value);
            let zero = terms.not(nonzero);
            terms.zero_extend(zero, WORD)
        }
        Expr::Binary(op, left, right) => {
            let (left, right) = (expression(terms, left, registers), expression(terms, right, registers));
            binary(terms, *op, left, right)
        }
    }
}

fn binary(terms: &mut Terms, op: BinaryOp, left: Term, right: Term) -> Term {
    let truth = match op {
        BinaryOp::Or | BinaryOp::And => {
            let (left, right) = (terms.nonzero(left), terms.nonzero(right));
            if op == BinaryOp::Or { terms.or(left, right) } else { terms.and(left, right) }
        }
        BinaryOp::Equal => terms.equal(left, right),
        BinaryOp::NotEqual => {
            let equal = terms.equal(left, right);
            terms.not(equal)
        }
        BinaryOp::Less => terms.binary(Binary::LessSigned, left, right),
        BinaryOp::Greater => terms.binary(Binary::LessSigned, right, left),
        BinaryOp::LessEqual => {
            let greater = terms.binary(Binary::LessSigned, right, left);
            terms.not(greater)
        }
        BinaryOp::GreaterEqual => {
            let less = terms.binary(Binary::LessSigned, left, right);
            terms.not(less)
        }
        BinaryOp::BitOr => return terms.binary(Binary::Or, left, right),
        BinaryOp::BitXor => return terms.binary(Binary::Xor, left, right),
        BinaryOp::BitAnd => return terms.binary(Binary::And, left, right),
        BinaryOp::Add => return terms.binary(Binary::Add, left, right),
        BinaryOp::Subtract => return terms.binary(Binary::Sub, left, right),
        BinaryOp::Multiply => return terms.binary(Binary::Mul, left, right),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRight => {
            // Shift counts are modulo the width.
            let low = terms.number(u64::from(WORD - 1), WORD);
            let count = terms.binary(Binary::And, right, low);
            let op = if op == BinaryOp::ShiftLeft { Binary::ShiftLeft } else { Binary::ShiftRightSigned };
            return terms.binary(op, left, count);
        }
    };
    terms.zero_extend(truth, WORD)
}

/// The instruction that an event of a litmus program came from.
pub fn instruction_of(program: &Program, site: SiteId) -> usize {
    program.sites[site.0 as usize].column as usize
}
