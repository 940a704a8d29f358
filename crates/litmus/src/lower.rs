//! Syntax tree to flat code: names resolved, loops unrolled, branches turned into forward jumps.

use std::collections::HashMap;

use px86::LINE_BYTES;
use px86::line::WORD_BYTES;

use crate::code::{Code, Expr, Instruction, LocId, Location, Op, Query, RegId, Rmw, Test};
use crate::error::{Error, Span};
use crate::syntax::{self, ExprKind, File, Name, RmwOp, Statement, StatementKind};

/// How many instructions a test may have once its loops are unrolled.
const MAX_INSTRUCTIONS: usize = 10_000;

/// How many locations a test may have.
const MAX_LOCATIONS: usize = 4096;

/// How many threads a test may have.
const MAX_THREADS: usize = 64;

const LOCATIONS_PER_LINE: usize = LINE_BYTES as usize / WORD_BYTES as usize;

pub(crate) fn lower(source: &str, file: &File) -> Result<Test, Error> {
    let locations = locations(file)?;
    let names: Names = locations
        .iter()
        .enumerate()
        .map(|(id, location)| (location.name.clone(), LocId(id as u16)))
        .collect();
    if file.threads.len() > MAX_THREADS {
        return Err(Error::new(file.name.span, format!("more than {MAX_THREADS} threads"), "in this test"));
    }
    let mut budget = MAX_INSTRUCTIONS;
    let threads = file
        .threads
        .iter()
        .map(|body| Lowering::new(&names, false, &mut budget).code(body))
        .collect::<Result<_, _>>()?;
    let recover =
        file.recover.as_ref().map(|body| Lowering::new(&names, true, &mut budget).code(body)).transpose()?;
    let queries =
        file.queries.iter().map(|query| lower_query(source, &names, query)).collect::<Result<_, _>>()?;
    Ok(Test {
        name: file.name.text.clone(),
        source: source.to_owned(),
        lines: file.lines.len(),
        domains: file.lines.iter().map(|line| line.domain).collect(),
        locations,
        threads,
        recover,
        queries,
    })
}

type Names = HashMap<String, LocId>;

fn locations(file: &File) -> Result<Vec<Location>, Error> {
    let mut locations: Vec<Location> = Vec::new();
    let mut seen = HashMap::new();
    for (line, syntax::Line { span, names, .. }) in file.lines.iter().enumerate() {
        if names.len() > LOCATIONS_PER_LINE {
            let message = format!(
                "{} locations on one line, but a cache line holds {LOCATIONS_PER_LINE} of 8 bytes",
                names.len()
            );
            let help = "declare the others in a `line` block of their own";
            return Err(Error::new(names[LOCATIONS_PER_LINE].span, message, "does not fit").help(help));
        }
        for (slot, name) in names.iter().enumerate() {
            if locations.len() == MAX_LOCATIONS {
                let message = format!("more than {MAX_LOCATIONS} locations");
                return Err(Error::new(*span, message, "too many"));
            }
            if seen.insert(&name.text, locations.len()).is_some() {
                let message = format!("`{}` is declared twice", name.text);
                return Err(Error::new(name.span, message, "second declaration"));
            }
            let address = Location::address(line, slot);
            locations.push(Location { name: name.text.clone(), line, address, init: 0 });
        }
    }
    let mut set = HashMap::new();
    for (name, value) in &file.init {
        let Some(&index) = seen.get(&name.text) else { return Err(not_declared(name)) };
        if set.insert(&name.text, ()).is_some() {
            let message = format!("`{}` is given an initial value twice", name.text);
            return Err(Error::new(name.span, message, "second value"));
        }
        locations[index].init = *value;
    }
    Ok(locations)
}

fn not_declared(name: &Name) -> Error {
    let message = format!("`{}` is not a location", name.text);
    Error::new(name.span, message, "not declared in any `line` block")
        .help(format!("declare it: `line {{ {} }}`", name.text))
}

fn lower_query(source: &str, names: &Names, query: &syntax::Query) -> Result<Query, Error> {
    let condition = expression(&query.condition, &mut |name, span| match names.get(name) {
        Some(id) => Ok(id.0),
        None => {
            Err(Error::new(span, format!("`{name}` is not a location"), "not declared in any `line` block")
                .help("queries are about locations; registers do not survive a crash"))
        }
    })?;
    let text = query.span.text(source).split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Query { kind: query.kind, text, condition, span: query.span })
}

fn expression(
    expr: &syntax::Expr,
    resolve: &mut impl FnMut(&str, Span) -> Result<u16, Error>,
) -> Result<Expr, Error> {
    Ok(match &expr.kind {
        ExprKind::Int(value) => Expr::Int(*value),
        ExprKind::Name(name) => Expr::Variable(resolve(name, expr.span)?),
        ExprKind::Unary(op, operand) => Expr::Unary(*op, Box::new(expression(operand, resolve)?)),
        ExprKind::Binary(op, left, right) => {
            Expr::Binary(*op, Box::new(expression(left, resolve)?), Box::new(expression(right, resolve)?))
        }
    })
}

struct Lowering<'a> {
    names: &'a Names,
    /// Assertions are for recovery only.
    in_recovery: bool,
    /// Instructions the test may still have.
    budget: &'a mut usize,
    registers: HashMap<String, RegId>,
    code: Code,
}

impl<'a> Lowering<'a> {
    fn new(names: &'a Names, in_recovery: bool, budget: &'a mut usize) -> Self {
        Lowering { names, in_recovery, budget, registers: HashMap::new(), code: Code::default() }
    }

    fn code(mut self, body: &[Statement]) -> Result<Code, Error> {
        self.block(body)?;
        Ok(self.code)
    }

    fn block(&mut self, statements: &[Statement]) -> Result<(), Error> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn push(&mut self, span: Span, op: Op) -> Result<usize, Error> {
        let Some(left) = self.budget.checked_sub(1) else {
            let message = format!("more than {MAX_INSTRUCTIONS} instructions once loops are unrolled");
            return Err(Error::new(span, message, "the limit is reached here"));
        };
        *self.budget = left;
        self.code.instructions.push(Instruction { op, span });
        Ok(self.code.instructions.len() - 1)
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        let span = statement.span;
        let op = match &statement.kind {
            StatementKind::Assign(target, value) => self.assign(target, value)?,
            StatementKind::Rmw { target, op, location, arguments } => {
                let location_id = self.location(location)?;
                let mut operands = Vec::new();
                for argument in arguments {
                    operands.push(self.expression(argument)?);
                }
                let mut operands = operands.into_iter();
                let mut operand = || operands.next().expect("the parser counted the operands");
                let rmw = match op {
                    RmwOp::Cas => Rmw::Cas(operand(), operand()),
                    RmwOp::Faa => Rmw::Faa(operand()),
                    RmwOp::Xchg => Rmw::Xchg(operand()),
                };
                let register = target.as_ref().map(|name| self.result_register(name)).transpose()?;
                Op::Rmw(register, location_id, rmw)
            }
            StatementKind::NonTemporal(location, value) => {
                Op::NonTemporal(self.location(location)?, self.expression(value)?)
            }
            StatementKind::Flush { opt: false, location } => Op::Flush(self.location(location)?),
            StatementKind::Flush { opt: true, location } => Op::FlushOpt(self.location(location)?),
            StatementKind::StoreFence => Op::StoreFence,
            StatementKind::Fence => Op::Fence,
            StatementKind::Assert(_) if !self.in_recovery => {
                return Err(Error::new(span, "`assert` outside of `recover`", "only recovery can check")
                    .help("registers are lost in a crash: store what you want to check, and assert in `recover`"));
            }
            StatementKind::Assert(condition) => Op::Assert(self.expression(condition)?),
            StatementKind::If { condition, then, otherwise } => {
                return self.conditional(span, condition, then, otherwise);
            }
            StatementKind::Repeat { count, count_span, body } => {
                if *count < 0 {
                    return Err(Error::new(*count_span, "a negative number of repetitions", "less than 0"));
                }
                // A body without instructions is harmless but could be repeated forever.
                for _ in 0..*count {
                    let before = self.code.instructions.len();
                    self.block(body)?;
                    if self.code.instructions.len() == before {
                        break;
                    }
                }
                return Ok(());
            }
        };
        self.push(span, op).map(drop)
    }

    fn conditional(
        &mut self,
        span: Span,
        condition: &syntax::Expr,
        then: &[Statement],
        otherwise: &[Statement],
    ) -> Result<(), Error> {
        let condition = self.expression(condition)?;
        let branch = self.push(span, Op::JumpIfZero(condition, 0))?;
        self.block(then)?;
        let mut else_start = self.code.instructions.len();
        if !otherwise.is_empty() {
            let jump = self.push(span, Op::Jump(0))?;
            else_start = self.code.instructions.len();
            self.block(otherwise)?;
            let end = self.code.instructions.len();
            self.code.instructions[jump].op = Op::Jump(end);
        }
        if let Op::JumpIfZero(_, target) = &mut self.code.instructions[branch].op {
            *target = else_start;
        }
        Ok(())
    }

    fn assign(&mut self, target: &Name, value: &syntax::Expr) -> Result<Op, Error> {
        if let Some(&location) = self.names.get(&target.text) {
            return Ok(Op::Store(location, self.expression(value)?));
        }
        if let ExprKind::Name(name) = &value.kind
            && let Some(&location) = self.names.get(name)
        {
            return Ok(Op::Load(self.register(&target.text, target.span)?, location));
        }
        let value = self.expression(value)?;
        Ok(Op::Assign(self.register(&target.text, target.span)?, value))
    }

    fn location(&self, name: &Name) -> Result<LocId, Error> {
        self.names.get(&name.text).copied().ok_or_else(|| not_declared(name))
    }

    fn result_register(&mut self, name: &Name) -> Result<RegId, Error> {
        if self.names.contains_key(&name.text) {
            let message = format!("`{}` is a location, not a register", name.text);
            return Err(Error::new(name.span, message, "the old value goes into a register")
                .help("name a register, and store it to the location in a second statement"));
        }
        self.register(&name.text, name.span)
    }

    fn register(&mut self, name: &str, span: Span) -> Result<RegId, Error> {
        if let Some(&id) = self.registers.get(name) {
            return Ok(id);
        }
        let Ok(number) = u16::try_from(self.registers.len()) else {
            return Err(Error::new(span, "more than 65536 registers in one thread", "too many"));
        };
        let id = RegId(number);
        self.registers.insert(name.to_owned(), id);
        self.code.registers.push(name.to_owned());
        Ok(id)
    }

    fn expression(&mut self, expr: &syntax::Expr) -> Result<Expr, Error> {
        expression(expr, &mut |name, span| {
            if self.names.contains_key(name) {
                let message = format!("the location `{name}` inside an expression");
                return Err(Error::new(span, message, "expressions are over registers and numbers")
                    .help(format!("load it into a register first: `r = {name};`")));
            }
            self.register(name, span).map(|id| id.0)
        })
    }
}
