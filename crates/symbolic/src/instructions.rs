//! What instructions do.

use crashproof_frontend::bitcode::ir::{
    self, Callee, FunctionId, Instruction, Op, Order, Predicate, Rmw, Type,
};
use crashproof_prove::program::Action;
use crashproof_prove::term::{self, Term, Terms};

use crate::access::At;
use crate::machine::{Flow, Machine, Stop};
use crate::objects::Object;
use crate::paths::Frame;
use crate::state::{self, State};
use crate::value::{self, Value};

impl Machine<'_> {
    pub(crate) fn instruction(
        &mut self,
        frame: &mut Frame,
        instruction: &Instruction,
        state: &mut State,
    ) -> Flow<Option<Value>> {
        let at = At { place: &instruction.place, function: frame.function };
        macro_rules! scalar {
            ($operand:expr) => {
                match self.scalar(frame, $operand) {
                    Ok(term) => term,
                    Err(what) => return Err(self.refuse(state, &what, at)),
                }
            };
        }
        macro_rules! operand {
            ($operand:expr) => {
                match self.operand(frame, $operand) {
                    Ok(value) => value,
                    Err(what) => return Err(self.refuse(state, &what, at)),
                }
            };
        }
        let ty = &instruction.ty;
        // Integers that terms cannot hold: the value is unknown, which matters only where it is used.
        let width = value::bits(ty).unwrap_or(64);
        let too_wide = matches!(ty, Type::Int(65..));
        if too_wide && !matches!(instruction.op, Op::Call { .. } | Op::Load { .. }) {
            return Ok(Some(Value::Scalar(self.not_modelled(64, "arithmetic of more than 64 bits", at))));
        }
        let term = match &instruction.op {
            Op::Binary(op, a, b) => {
                let (a, b) = (scalar!(a), scalar!(b));
                self.arithmetic(state, *op, a, b, at)?
            }
            Op::Compare(predicate, a, b) => {
                let (a, b) = (scalar!(a), scalar!(b));
                compare(&mut self.terms, *predicate, a, b)
            }
            Op::Select(condition, yes, no) => {
                let (condition, yes, no) = (scalar!(condition), operand!(yes), operand!(no));
                return Ok(Some(value::choose(&mut self.terms, condition, &yes, &no)));
            }
            Op::ZeroExtend(a) => {
                let a = scalar!(a);
                self.terms.zero_extend(a, width)
            }
            Op::SignExtend(a) => {
                let a = scalar!(a);
                self.terms.sign_extend(a, width)
            }
            Op::Truncate(a) => {
                let a = scalar!(a);
                self.terms.extract(a, 0, width)
            }
            Op::Same(a) => {
                let value = operand!(a);
                return self.same_bits(state, value, ty, at);
            }
            Op::Address { base, offset, scaled } => {
                let mut address = scalar!(base);
                let by = self.terms.number(*offset as u64, 64);
                address = self.terms.binary(term::Binary::Add, address, by);
                for (index, stride) in scaled {
                    let index = scalar!(index);
                    let index = self.terms.sign_extend(index, 64);
                    let stride = self.terms.number(*stride as u64, 64);
                    let by = self.terms.binary(term::Binary::Mul, index, stride);
                    address = self.terms.binary(term::Binary::Add, address, by);
                }
                address
            }
            Op::Alloca { size, count, align } => {
                let count = scalar!(count);
                let Some(count) = self.terms.constant(count) else {
                    return Err(self.refuse(state, "the size of a local array is not known", at));
                };
                let address =
                    self.allocate(state, frame.point, size * count, *align, "local variable", at)?;
                self.terms.number(address, 64)
            }
            Op::Load { from, .. } => {
                let from = scalar!(from);
                return Ok(Some(self.load(state, from, ty, at)?));
            }
            Op::Store { value, ty, to, order, nontemporal, .. } => {
                let (value, to) = (operand!(value), scalar!(to));
                match value {
                    Value::Scalar(value) if *order == Order::SequentiallyConsistent => {
                        self.exchange(state, to, value, at)?;
                    }
                    _ => self.store(state, to, &value, ty, *nontemporal, at)?,
                }
                return Ok(None);
            }
            Op::Rmw { op, at: address, value, bytes } => {
                let (address, operand) = (scalar!(address), scalar!(value));
                let op = *op;
                let compute = &mut |terms: &mut Terms, old: Term| {
                    (apply_rmw(terms, op, old, operand), terms.truth(true))
                };
                self.rmw(state, address, *bytes as u8 * 8, compute, at)?
            }
            Op::CompareExchange { at: address, expected, new, bytes } => {
                let (address, expected, new) = (scalar!(address), scalar!(expected), scalar!(new));
                let compute = &mut |terms: &mut Terms, old: Term| (new, terms.equal(old, expected));
                let old = self.rmw(state, address, *bytes as u8 * 8, compute, at)?;
                let success = self.terms.equal(old, expected);
                return Ok(Some(Value::Members(vec![Value::Scalar(old), Value::Scalar(success)])));
            }
            Op::Fence { order, compiler_only } => {
                if *order == Order::SequentiallyConsistent && !compiler_only {
                    self.fence(state, at)?;
                }
                return Ok(None);
            }
            Op::Call { callee, arguments } => {
                let mut values = Vec::new();
                for argument in arguments {
                    // Metadata arguments of intrinsics and the like are no values, and not used as such.
                    values.push(self.operand(frame, argument).ok());
                }
                return self.call_instruction(frame, callee, values, ty, state, at);
            }
            Op::Extract(aggregate, indices) => {
                let mut member = operand!(aggregate);
                for index in indices {
                    let Value::Members(mut members) = member else {
                        return Err(self.refuse(state, "a member of something that has none", at));
                    };
                    member = members.swap_remove(*index as usize);
                }
                return Ok(Some(member));
            }
            Op::Insert(aggregate, member, indices) => {
                let (mut whole, member) = (operand!(aggregate), operand!(member));
                let mut place = &mut whole;
                for index in indices {
                    let Value::Members(members) = place else {
                        return Err(self.refuse(state, "a member of something that has none", at));
                    };
                    place = &mut members[*index as usize];
                }
                *place = member;
                return Ok(Some(whole));
            }
            Op::Unsupported(what) => return self.unmodelled(state, ty, what, at),
        };
        Ok(Some(Value::Scalar(term)))
    }

    /// The result of something that is not modelled but touches no memory.
    pub(crate) fn unmodelled(
        &mut self,
        state: &mut State,
        ty: &Type,
        what: &str,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        let why = self.reason(what, at);
        match value::build(ty, &mut |bits| self.imprecise(bits, &why)) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.refuse(state, &why, at)),
        }
    }

    fn not_modelled(&mut self, bits: u8, what: &str, at: At<'_>) -> Term {
        let why = self.reason(what, at);
        self.imprecise(bits, &why)
    }

    /// Names the place in words, because the value may be used elsewhere.
    fn reason(&self, what: &str, at: At<'_>) -> String {
        format!("{what} at {}:{} is not modelled", at.place.file, at.place.line)
    }

    fn arithmetic(&mut self, state: &mut State, op: ir::Binary, a: Term, b: Term, at: At<'_>) -> Flow<Term> {
        use ir::Binary as Ir;
        use term::Binary as To;
        let to = match op {
            Ir::Add => To::Add,
            Ir::Sub => To::Sub,
            Ir::Mul => To::Mul,
            Ir::DivideUnsigned => To::DivUnsigned,
            Ir::DivideSigned => To::DivSigned,
            Ir::RemainderUnsigned => To::RemUnsigned,
            Ir::RemainderSigned => To::RemSigned,
            Ir::ShiftLeft => To::ShiftLeft,
            Ir::ShiftRight => To::ShiftRight,
            Ir::ShiftRightSigned => To::ShiftRightSigned,
            Ir::And => To::And,
            Ir::Or => To::Or,
            Ir::Xor => To::Xor,
        };
        if matches!(to, To::DivUnsigned | To::DivSigned | To::RemUnsigned | To::RemSigned) {
            let condition = self.terms.nonzero(b);
            let message = "the divisor is not 0".to_owned();
            self.assert(state, condition, message, at)?;
        }
        // The processor traps here, too.
        let width = self.terms.width(a);
        if matches!(to, To::DivSigned | To::RemSigned) && width >= 32 {
            let (least, minus) =
                (self.terms.number(1 << (width - 1), width), self.terms.number(u64::MAX, width));
            let (lowest, negates) = (self.terms.equal(a, least), self.terms.equal(b, minus));
            let both = self.terms.and(lowest, negates);
            let fits = self.terms.not(both);
            self.assert(state, fits, "the quotient fits".to_owned(), at)?;
        }
        Ok(self.terms.binary(to, a, b))
    }

    /// Claims a condition, and goes on where it holds.
    pub(crate) fn assert(
        &mut self,
        state: &mut State,
        condition: Term,
        message: String,
        at: At<'_>,
    ) -> Flow<()> {
        self.emit(state, Action::Assert { condition, message }, at.place, at.function)?;
        if state.assume(&mut self.terms, condition) { Ok(()) } else { Err(Stop::Dead) }
    }

    /// A value under another type of the same size.
    fn same_bits(&mut self, state: &mut State, value: Value, ty: &Type, at: At<'_>) -> Flow<Option<Value>> {
        match (&value, ty) {
            (Value::Scalar(_), Type::Aggregate(_)) => {}
            (Value::Members(_), _) if value::bits(ty).is_some() => {}
            (Value::Members(members), Type::Aggregate(aggregate))
                if members.len() != aggregate.members.len() => {}
            _ => return Ok(Some(value)),
        }
        self.unmodelled(state, ty, "a vector taken apart by its bits", at)
    }

    /// Fresh memory of the running process.
    pub(crate) fn allocate(
        &mut self,
        state: &mut State,
        point: u64,
        size: u64,
        align: u64,
        name: &str,
        at: At<'_>,
    ) -> Flow<u64> {
        const LARGEST: u64 = 1 << 20;
        if size > LARGEST {
            return Err(self.refuse(state, &format!("{size} bytes of memory in one piece"), at));
        }
        let object = Object {
            name: format!("{name} at {}:{}", at.place.file, at.place.line),
            address: 0,
            size,
            persistent: false,
            internal: false,
            initial: Vec::new(),
            defined: false,
            written: Vec::new(),
            fields: Vec::new(),
        };
        Ok(self.make_object(state, point, align, object))
    }

    /// A sequentially consistent store, as the compiler does it: `xchg`.
    fn exchange(&mut self, state: &mut State, to: Term, value: Term, at: At<'_>) -> Flow<()> {
        let bits = self.terms.width(value).next_multiple_of(8);
        let value = self.terms.zero_extend(value, bits);
        let compute = &mut |terms: &mut Terms, _: Term| (value, terms.truth(true));
        self.rmw(state, to, bits, compute, at)?;
        Ok(())
    }

    fn call_instruction(
        &mut self,
        frame: &mut Frame,
        callee: &Callee,
        arguments: Vec<Option<Value>>,
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        match callee {
            Callee::Function(function) => self.call_function(frame, *function, arguments, ty, state, at),
            Callee::Assembly(assembly) => self.assembly(assembly, arguments, ty, state, at),
            Callee::Pointer(pointer) => {
                let pointer = match self.scalar(frame, pointer) {
                    Ok(pointer) => pointer,
                    Err(what) => return Err(self.refuse(state, &what, at)),
                };
                self.call_pointer(frame, pointer, arguments, ty, state, at)
            }
        }
    }

    pub(crate) fn call_function(
        &mut self,
        frame: &mut Frame,
        function: FunctionId,
        arguments: Vec<Option<Value>>,
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        let module = self.module;
        let code = module.function(function);
        if let Some(result) = self.library_call(frame, &code.name, &arguments, ty, state, at)? {
            return Ok(result.value);
        }
        if code.blocks.is_empty() {
            let reason = format!("calls `{}`, which is not defined here", code.name);
            return Err(self.refuse(state, &reason, at));
        }
        let mut values = Vec::new();
        let mut arguments = arguments;
        let more = arguments.split_off(arguments.len().min(code.parameters.len()));
        for (index, argument) in arguments.into_iter().enumerate() {
            let Some(value) = argument else {
                return Err(self.refuse(state, "an argument that is not supported", at));
            };
            let copied = code.copied.get(index).copied().flatten();
            values.push(match (copied, value) {
                (Some(bytes), Value::Scalar(from)) => {
                    let point = frame.point.wrapping_add(1 + index as u64);
                    let copy = self.allocate(state, point, bytes, 16, "argument", at)?;
                    let to = self.terms.number(copy, 64);
                    self.copy_bytes(state, to, from, bytes, at)?;
                    Value::Scalar(to)
                }
                (_, value) => value,
            });
        }
        self.calls.push((at.place.clone(), at.function));
        let called = self.call(function, values, more, std::mem::take(state), frame.point);
        self.calls.pop();
        let (after, result) = called?;
        *state = after;
        Ok(result)
    }

    fn call_pointer(
        &mut self,
        frame: &mut Frame,
        pointer: Term,
        arguments: Vec<Option<Value>>,
        ty: &Type,
        state: &mut State,
        at: At<'_>,
    ) -> Flow<Option<Value>> {
        let targets: Vec<(Term, Option<FunctionId>)> = match self.cases(state, pointer) {
            Some(cases) => {
                cases.into_iter().map(|(condition, number)| (condition, self.function_at(number))).collect()
            }
            None => {
                // It came from memory that others can write. One of these, or else it is not known.
                let mut targets = Vec::new();
                let mut neither = self.terms.truth(true);
                for function in self.address_taken(arguments.len()) {
                    let address = self.function_term(function);
                    let here = self.terms.equal(pointer, address);
                    let not_here = self.terms.not(here);
                    neither = self.terms.and(neither, not_here);
                    targets.push((here, Some(function)));
                }
                let mut rest = State { path: state.path.clone(), ..State::default() };
                if rest.assume(&mut self.terms, neither) {
                    self.refuse(&mut rest, "calls through a pointer that is not known", at);
                }
                targets
            }
        };
        let mut arrivals = Vec::new();
        let mut result_is_value = false;
        for (condition, target) in targets {
            let mut here = state.clone();
            if !here.assume(&mut self.terms, condition) {
                continue;
            }
            let Some(target) = target else {
                let no = self.terms.truth(false);
                let message = "the pointer that is called points to a function".to_owned();
                match self.assert(&mut here, no, message, at) {
                    Err(Stop::Again) => return Err(Stop::Again),
                    _ => continue,
                }
            };
            match self.call_function(frame, target, arguments.clone(), ty, &mut here, at) {
                Ok(value) => {
                    result_is_value |= value.is_some();
                    arrivals.push((here, value.into_iter().collect()));
                }
                Err(Stop::Dead) => {}
                Err(Stop::Again) => return Err(Stop::Again),
            }
        }
        let (after, mut values) = state::merge(&mut self.terms, arrivals).ok_or(Stop::Dead)?;
        *state = after;
        Ok(if result_is_value { values.pop() } else { None })
    }
}

pub(crate) fn compare(terms: &mut Terms, predicate: Predicate, a: Term, b: Term) -> Term {
    use term::Binary::{LessSigned, LessUnsigned};
    let (op, left, right, negated) = match predicate {
        Predicate::Equal => return terms.equal(a, b),
        Predicate::NotEqual => {
            let equal = terms.equal(a, b);
            return terms.not(equal);
        }
        Predicate::UnsignedLess => (LessUnsigned, a, b, false),
        Predicate::UnsignedGreater => (LessUnsigned, b, a, false),
        Predicate::UnsignedLessEqual => (LessUnsigned, b, a, true),
        Predicate::UnsignedGreaterEqual => (LessUnsigned, a, b, true),
        Predicate::SignedLess => (LessSigned, a, b, false),
        Predicate::SignedGreater => (LessSigned, b, a, false),
        Predicate::SignedLessEqual => (LessSigned, b, a, true),
        Predicate::SignedGreaterEqual => (LessSigned, a, b, true),
    };
    let less = terms.binary(op, left, right);
    if negated { terms.not(less) } else { less }
}

fn apply_rmw(terms: &mut Terms, op: Rmw, old: Term, operand: Term) -> Term {
    let mut choose_by = |predicate| {
        let condition = compare(terms, predicate, old, operand);
        terms.choose(condition, old, operand)
    };
    match op {
        Rmw::Exchange => operand,
        Rmw::Max => choose_by(Predicate::SignedGreater),
        Rmw::Min => choose_by(Predicate::SignedLess),
        Rmw::UnsignedMax => choose_by(Predicate::UnsignedGreater),
        Rmw::UnsignedMin => choose_by(Predicate::UnsignedLess),
        Rmw::Add => terms.binary(term::Binary::Add, old, operand),
        Rmw::Sub => terms.binary(term::Binary::Sub, old, operand),
        Rmw::And => terms.and(old, operand),
        Rmw::Or => terms.or(old, operand),
        Rmw::Xor => terms.binary(term::Binary::Xor, old, operand),
        Rmw::Nand => {
            let both = terms.and(old, operand);
            terms.not(both)
        }
    }
}

/// Whether an operand is a known number.
pub(crate) fn number(terms: &Terms, value: Option<&Value>) -> Option<u64> {
    match value {
        Some(Value::Scalar(term)) => terms.constant(*term),
        _ => None,
    }
}
