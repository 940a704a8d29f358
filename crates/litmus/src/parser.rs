//! Tokens to syntax tree, by recursive descent.

use crate::code::{BinaryOp, QueryKind, UnaryOp};
use crate::error::{Error, Span};
use px86::Domain;

use crate::lexer::{KEYWORDS, Token, lex};
use crate::syntax::{Expr, ExprKind, File, Line, Name, Query, RmwOp, Statement, StatementKind};

/// How deep blocks and expressions may nest. Far beyond any test a person writes, and small enough for
/// every walk over the tree to fit on the stack.
const MAX_DEPTH: usize = 128;

/// Files beyond this size are not litmus tests.
const MAX_BYTES: usize = 1 << 20;

pub(crate) fn parse(source: &str) -> Result<File, Error> {
    if source.len() > MAX_BYTES {
        let span = Span { start: 0, end: 0 };
        return Err(Error::new(span, "the file is larger than 1 MiB", "no litmus test is this large"));
    }
    let tokens = lex(source)?;
    Parser { tokens, at: 0, depth: 0 }.file()
}

struct Parser<'a> {
    tokens: Vec<(Token<'a>, Span)>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.at].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    fn previous_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].1
    }

    fn next(&mut self) -> (Token<'a>, Span) {
        let token = self.tokens[self.at];
        // The end stays where it is, however often it is asked for.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(s) if s == symbol);
        if found {
            self.next();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w == word);
        if found {
            self.next();
        }
        found
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = self.peek().describe();
        Error::new(self.span(), format!("expected {expected}, found {found}"), format!("expected {expected}"))
    }

    fn expect(&mut self, symbol: &str, after: &str) -> Result<Span, Error> {
        if matches!(self.peek(), Token::Symbol(s) if s == symbol) {
            return Ok(self.next().1);
        }
        Err(self.unexpected(&format!("`{symbol}` {after}")))
    }

    fn name(&mut self, what: &str) -> Result<Name, Error> {
        match self.peek() {
            Token::Word(word) if KEYWORDS.contains(&word) => {
                Err(self.unexpected(what).help(format!("`{word}` is a keyword and cannot be a name")))
            }
            Token::Word(word) => {
                let span = self.next().1;
                Ok(Name { text: word.into(), span })
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn integer(&mut self, what: &str) -> Result<(i64, Span), Error> {
        let start = self.span();
        let negative = self.eat("-");
        match self.peek() {
            Token::Int(value) => {
                let span = start.to(self.next().1);
                Ok((if negative { value.wrapping_neg() } else { value }, span))
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep(self.span()));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn file(mut self) -> Result<File, Error> {
        if !self.eat_word("litmus") {
            let help = "a test begins with its name, for example `litmus commit-store`";
            return Err(self.unexpected("`litmus` and the test's name").help(help));
        }
        let name = match self.peek() {
            Token::TestName(text) => Name { text: text.into(), span: self.next().1 },
            _ => return Err(self.unexpected("the test's name: letters, digits, `_`, `+`, `-`, `.`")),
        };
        let mut file = File {
            name,
            lines: Vec::new(),
            init: Vec::new(),
            threads: Vec::new(),
            recover: None,
            queries: Vec::new(),
        };
        loop {
            let start = self.span();
            match self.peek() {
                Token::End => return Ok(file),
                Token::Word("line") => {
                    self.next();
                    let domain = self.domain()?;
                    let names = self.line()?;
                    file.lines.push(Line { span: start, domain, names });
                }
                Token::Word("init") => {
                    self.next();
                    self.init(&mut file.init)?;
                }
                Token::Word("thread") => {
                    self.next();
                    file.threads.push(self.block("after `thread`")?);
                }
                Token::Word("recover") => {
                    self.next();
                    if file.recover.is_some() {
                        return Err(Error::new(start, "a second `recover` block", "only one is allowed"));
                    }
                    file.recover = Some(self.block("after `recover`")?);
                }
                Token::Word("forbidden") => {
                    self.next();
                    file.queries.push(self.query(QueryKind::Forbidden)?);
                }
                Token::Word("allowed") => {
                    self.next();
                    file.queries.push(self.query(QueryKind::Allowed)?);
                }
                Token::Word("litmus") => {
                    return Err(Error::new(start, "a second test in one file", "only one test a file"));
                }
                _ => {
                    let expected = "`line`, `init`, `thread`, `recover`, `forbidden` or `allowed`";
                    return Err(self.unexpected(expected));
                }
            }
        }
    }

    /// The persistence domain between `line` and `{`, if there is one.
    fn domain(&mut self) -> Result<Option<Domain>, Error> {
        let Token::Word(word) = self.peek() else { return Ok(None) };
        let Some(domain) = Domain::named(word) else {
            let help =
                "a line may be `line adr { ... }` (its cache is lost) or `line eadr { ... }` (it survives)";
            return Err(self.unexpected("`{`, `adr` or `eadr` after `line`").help(help));
        };
        self.next();
        Ok(Some(domain))
    }

    /// `{ a, b }`
    fn line(&mut self) -> Result<Vec<Name>, Error> {
        self.expect("{", "after `line`")?;
        let mut names = vec![self.name("the name of a location")?];
        while self.eat(",") {
            if matches!(self.peek(), Token::Symbol("}")) {
                break;
            }
            names.push(self.name("the name of a location")?);
        }
        self.expect("}", "or `,` after a location")?;
        Ok(names)
    }

    /// `{ a = 1; b = 2, c = 3 }`, separators optional.
    fn init(&mut self, into: &mut Vec<(Name, i64)>) -> Result<(), Error> {
        self.expect("{", "after `init`")?;
        while !self.eat("}") {
            let name = self.name("a location or `}`")?;
            self.expect("=", "after the location")?;
            let (value, _) = self.integer("a number; initial values are constants")?;
            into.push((name, value));
            let _ = self.eat(";") || self.eat(",");
        }
        Ok(())
    }

    fn query(&mut self, kind: QueryKind) -> Result<Query, Error> {
        self.expect("(", &format!("after `{}`", kind.name()))?;
        let start = self.span();
        let condition = self.expression()?;
        let span = start.to(self.previous_span());
        self.expect(")", "after the condition")?;
        self.eat(";");
        Ok(Query { kind, span, condition })
    }

    fn block(&mut self, after: &str) -> Result<Vec<Statement>, Error> {
        self.expect("{", after)?;
        self.nested(|parser| {
            let mut statements = Vec::new();
            while !parser.eat("}") {
                if !parser.eat(";") {
                    statements.push(parser.statement()?);
                }
            }
            Ok(statements)
        })
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        let start = self.span();
        let Token::Word(word) = self.peek() else { return Err(self.unexpected("a statement or `}`")) };
        let kind = match word {
            "if" => return self.conditional(),
            "repeat" => {
                self.next();
                let (count, count_span) = self.integer("how often to repeat")?;
                let body = self.block("after the number of repetitions")?;
                let span = start.to(self.previous_span());
                return Ok(Statement { span, kind: StatementKind::Repeat { count, count_span, body } });
            }
            "sfence" => {
                self.next();
                StatementKind::StoreFence
            }
            "mfence" => {
                self.next();
                StatementKind::Fence
            }
            "clflush" | "clflushopt" | "clwb" => {
                self.next();
                let location = self.name(&format!("the location that `{word}` writes back"))?;
                StatementKind::Flush { opt: word != "clflush", location }
            }
            "movnt" => {
                self.next();
                let location = self.name("the location that `movnt` stores to")?;
                self.expect(",", "after the location")?;
                StatementKind::NonTemporal(location, self.expression()?)
            }
            "assert" => {
                self.next();
                StatementKind::Assert(self.expression()?)
            }
            "cas" | "faa" | "xchg" => self.rmw(None)?,
            _ => {
                let target = self.name("a statement or `}`")?;
                if matches!(self.peek(), Token::Word(_)) {
                    let message = format!("there is no instruction called `{}`", target.text);
                    return Err(Error::new(target.span, message, "not an instruction").help(
                        "instructions: clflush, clflushopt, clwb, sfence, mfence, movnt, cas, faa, xchg; \
                         stores and loads are `location = value` and `register = location`",
                    ));
                }
                self.expect("=", "after the name")?;
                if matches!(self.peek(), Token::Word("cas" | "faa" | "xchg")) {
                    self.rmw(Some(target))?
                } else {
                    StatementKind::Assign(target, self.expression()?)
                }
            }
        };
        let span = start.to(self.previous_span());
        if !self.eat(";") && !matches!(self.peek(), Token::Symbol("}")) {
            return Err(self.unexpected("`;` after the statement"));
        }
        Ok(Statement { span, kind })
    }

    fn conditional(&mut self) -> Result<Statement, Error> {
        self.nested(|parser| {
            let start = parser.next().1;
            parser.expect("(", "after `if`")?;
            let condition = parser.expression()?;
            let span = start.to(parser.expect(")", "after the condition")?);
            let then = parser.block("after the condition")?;
            let otherwise = if !parser.eat_word("else") {
                Vec::new()
            } else if matches!(parser.peek(), Token::Word("if")) {
                vec![parser.conditional()?]
            } else {
                parser.block("after `else`")?
            };
            Ok(Statement { span, kind: StatementKind::If { condition, then, otherwise } })
        })
    }

    fn rmw(&mut self, target: Option<Name>) -> Result<StatementKind, Error> {
        let (op, operands, shape) = match self.next().0 {
            Token::Word("cas") => (RmwOp::Cas, 2, "cas(location, expected, new)"),
            Token::Word("faa") => (RmwOp::Faa, 1, "faa(location, addend)"),
            _ => (RmwOp::Xchg, 1, "xchg(location, new)"),
        };
        let with_shape = |error: Error| error.help(format!("write `{shape}`"));
        self.expect("(", "").map_err(with_shape)?;
        let location = self.name("a location").map_err(with_shape)?;
        let mut arguments = Vec::new();
        for _ in 0..operands {
            self.expect(",", "and another operand").map_err(with_shape)?;
            arguments.push(self.expression()?);
        }
        self.expect(")", "after the operands").map_err(with_shape)?;
        Ok(StatementKind::Rmw { target, op, location, arguments })
    }

    fn expression(&mut self) -> Result<Expr, Error> {
        self.binary(0)
    }

    /// Precedence climbing over [`LEVELS`], loosest first.
    fn binary(&mut self, level: usize) -> Result<Expr, Error> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let Token::Symbol(symbol) = self.peek() else { return Ok(left) };
            let Some(&(_, op)) = operators.iter().find(|(text, _)| *text == symbol) else { return Ok(left) };
            self.next();
            let right = self.binary(level + 1)?;
            let height = 1 + left.height.max(right.height);
            let span = left.span.to(right.span);
            left = Expr::checked(span, height, ExprKind::Binary(op, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Result<Expr, Error> {
        let start = self.span();
        let op = if self.eat("!") {
            UnaryOp::Not
        } else if self.eat("-") {
            UnaryOp::Negate
        } else {
            return self.primary();
        };
        let operand = self.nested(Self::unary)?;
        Expr::checked(start.to(operand.span), operand.height + 1, ExprKind::Unary(op, Box::new(operand)))
    }

    fn primary(&mut self) -> Result<Expr, Error> {
        let span = self.span();
        match self.peek() {
            Token::Int(value) => {
                self.next();
                Ok(Expr { span, height: 1, kind: ExprKind::Int(value) })
            }
            Token::Symbol("(") => {
                self.next();
                let inner = self.nested(Self::expression)?;
                self.expect(")", "to close the parenthesis")?;
                Ok(inner)
            }
            _ => {
                let name = self.name("a number, a name or `(`")?;
                Ok(Expr { span, height: 1, kind: ExprKind::Name(name.text) })
            }
        }
    }
}

impl Expr {
    fn checked(span: Span, height: usize, kind: ExprKind) -> Result<Expr, Error> {
        if height > MAX_DEPTH { Err(too_deep(span)) } else { Ok(Expr { span, height, kind }) }
    }
}

fn too_deep(span: Span) -> Error {
    Error::new(span, format!("nested more than {MAX_DEPTH} levels deep"), "too deep")
}

/// Binary operators by precedence, as in C, loosest first.
const LEVELS: &[&[(&str, BinaryOp)]] = &[
    &[("||", BinaryOp::Or)],
    &[("&&", BinaryOp::And)],
    &[("|", BinaryOp::BitOr)],
    &[("^", BinaryOp::BitXor)],
    &[("&", BinaryOp::BitAnd)],
    &[("==", BinaryOp::Equal), ("!=", BinaryOp::NotEqual)],
    &[
        ("<", BinaryOp::Less),
        ("<=", BinaryOp::LessEqual),
        (">", BinaryOp::Greater),
        (">=", BinaryOp::GreaterEqual),
    ],
    &[("<<", BinaryOp::ShiftLeft), (">>", BinaryOp::ShiftRight)],
    &[("+", BinaryOp::Add), ("-", BinaryOp::Subtract)],
    &[("*", BinaryOp::Multiply)],
];
