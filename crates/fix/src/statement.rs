//! The statement at a place of the source: where it ends, and what it stores to.

use std::ops::Range;

use crate::tokens::{ASSIGNMENTS, Kind, Token, tokens};

/// Why a statement cannot be given a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is no such line or column.
    NotThere,
    /// The line has more than one statement.
    SeveralStatements,
    /// It is part of a condition, or of the head of a loop.
    InCondition,
    /// The function ends with it.
    Leaves,
    /// A macro or function of this name stores.
    InCall(String),
    /// What is stored to cannot be named twice: it has side effects.
    SideEffects(String),
    /// What is stored to cannot be read off it.
    NotUnderstood,
}

/// What a statement stores to, or loads from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// An expression for its address.
    pub(crate) address: String,
    /// An expression for its length.
    pub(crate) length: String,
    /// Is it a plain variable or field, at most a word and thus within a line?
    pub(crate) small: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// From its first token to behind its semicolon.
    pub(crate) span: Range<usize>,
    /// Is it the whole body of an `if`, `else` or loop, without braces?
    pub(crate) naked: bool,
    /// The block it is in: where that begins.
    pub(crate) block: usize,
    tokens: Vec<Token>,
}

/// A source and its tokens.
pub(crate) struct Text<'a> {
    pub(crate) source: &'a str,
    tokens: Vec<Token>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(source: &'a str) -> Text<'a> {
        Text { source, tokens: tokens(source) }
    }

    fn at(&self, index: usize) -> &'a str {
        &self.source[self.tokens[index].span.clone()]
    }

    /// The byte at a line and column, both from 1; the first visible one of the line if the column is 0.
    fn offset(&self, line: u32, column: u32) -> Option<usize> {
        let mut start = 0;
        for (index, text) in self.source.split_inclusive('\n').enumerate() {
            if index + 1 == line as usize {
                let indent = text.len() - text.trim_start().len();
                let column = (column as usize).checked_sub(1).unwrap_or(indent);
                return (column < text.len() && text.is_char_boundary(column)).then_some(start + column);
            }
            start += text.len();
        }
        None
    }

    /// The statement at a place.
    pub(crate) fn statement(&self, line: u32, column: u32) -> Result<Statement, Trouble> {
        let offset = self.offset(line, column).ok_or(Trouble::NotThere)?;
        let middle = self.tokens.partition_point(|token| token.span.end <= offset);
        if middle == self.tokens.len() {
            return Err(Trouble::NotThere);
        }
        // Back to the end of what comes before, over whole pairs of brackets.
        let mut first = middle;
        let mut depth = 0_i32;
        while first > 0 {
            match self.at(first - 1) {
                ")" | "]" => depth += 1,
                "(" | "[" if depth == 0 => {
                    // Within somebody's brackets: arguments belong to the statement around them.
                }
                "(" | "[" => depth -= 1,
                ";" | "{" | "}" if depth == 0 && !self.in_brackets(first - 1) => break,
                _ => {}
            }
            first -= 1;
        }
        let first = self.after_labels(first, middle);
        let (first, naked) = self.after_heads(first, middle)?;
        let mut last = middle;
        let mut depth = 0_i32;
        for index in first..self.tokens.len() {
            match self.at(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                ";" if depth == 0 => {
                    last = index;
                    break;
                }
                _ => {}
            }
            if depth < 0 {
                return Err(Trouble::NotUnderstood);
            }
            last = index;
        }
        if self.at(last) != ";" {
            return Err(Trouble::NotUnderstood);
        }
        match self.at(first) {
            "return" | "goto" | "break" | "continue" | "throw" | "co_return" => return Err(Trouble::Leaves),
            "if" | "while" | "for" | "switch" | "do" | "else" | "case" | "default" => {
                return Err(Trouble::InCondition);
            }
            _ => {}
        }
        let span = self.tokens[first].span.start..self.tokens[last].span.end;
        if self.shares_its_lines(&span) {
            return Err(Trouble::SeveralStatements);
        }
        let tokens = self.tokens[first..=last].to_vec();
        Ok(Statement { span, naked, block: self.block(first), tokens })
    }

    /// The condition, or the part of a loop's head, at a place: like a statement, but nothing can follow it.
    pub(crate) fn condition(&self, line: u32, column: u32) -> Result<Statement, Trouble> {
        let offset = self.offset(line, column).ok_or(Trouble::NotThere)?;
        let middle = self.tokens.partition_point(|token| token.span.end <= offset);
        let mut depth = 0_i32;
        let mut start = None;
        for index in (0..middle.min(self.tokens.len())).rev() {
            match self.at(index) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" if depth > 0 => depth -= 1,
                "(" if index > 0 && matches!(self.at(index - 1), "if" | "while" | "for" | "switch") => {
                    start = start.or(Some(index + 1));
                    break;
                }
                "{" => break,
                ";" if depth == 0 => start = start.or(Some(index + 1)),
                _ => {}
            }
        }
        let start = start.ok_or(Trouble::NotUnderstood)?;
        let mut depth = 0_i32;
        for index in start..self.tokens.len() {
            match self.at(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | ";" if depth == 0 => {
                    let tokens = self.tokens[start..=index].to_vec();
                    let span = self.tokens[start].span.start..self.tokens[index].span.start;
                    return Ok(Statement { span, naked: false, block: self.block(start), tokens });
                }
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
        }
        Err(Trouble::NotUnderstood)
    }

    /// Is the token within round or square brackets, as the semicolons of a `for` are?
    fn in_brackets(&self, index: usize) -> bool {
        let mut depth = 0_i32;
        for before in (0..index).rev() {
            match self.at(before) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" if depth == 0 => return true,
                "{" if depth == 0 => return false,
                "(" | "[" | "{" => depth -= 1,
                _ => {}
            }
        }
        false
    }

    /// Skips `label:` and `case x:`.
    fn after_labels(&self, mut first: usize, middle: usize) -> usize {
        loop {
            let label = match self.at(first) {
                "case" | "default" => (first..middle).find(|&index| self.at(index) == ":"),
                _ => {
                    (first + 1 < middle && self.tokens[first].kind == Kind::Word && self.at(first + 1) == ":")
                        .then_some(first + 1)
                }
            };
            match label {
                Some(colon) => first = colon + 1,
                None => return first,
            }
        }
    }

    /// Skips `if (…)`, `else`, `for (…)`, `while (…)` and `do` before a statement that is their body.
    fn after_heads(&self, mut first: usize, middle: usize) -> Result<(usize, bool), Trouble> {
        let mut naked = false;
        loop {
            match self.at(first) {
                "else" | "do" if first < middle => first += 1,
                "if" | "for" | "while" | "switch" => {
                    let mut depth = 0_i32;
                    let mut close = None;
                    for index in first + 1..self.tokens.len() {
                        match self.at(index) {
                            "(" => depth += 1,
                            ")" => depth -= 1,
                            _ => {}
                        }
                        if depth == 0 && self.at(index) == ")" {
                            close = Some(index);
                            break;
                        }
                    }
                    match close {
                        Some(close) if close < middle => first = close + 1,
                        _ => return Err(Trouble::InCondition),
                    }
                }
                _ => return Ok((first, naked)),
            }
            naked = true;
        }
    }

    /// Does another statement begin or end in one of the lines of this one?
    fn shares_its_lines(&self, span: &Range<usize>) -> bool {
        let start = self.source[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.source[span.end..].find('\n').map_or(self.source.len(), |newline| span.end + newline);
        self.tokens.iter().enumerate().any(|(index, token)| {
            let outside = token.span.end <= span.start || token.span.start >= span.end;
            let on_the_line = token.span.start >= start && token.span.end <= end;
            outside && on_the_line && self.at(index) == ";" && !self.in_brackets(index)
        })
    }

    /// Where the innermost block around a token begins.
    fn block(&self, index: usize) -> usize {
        let mut depth = 0_i32;
        for before in (0..index).rev() {
            match self.at(before) {
                "}" => depth += 1,
                "{" if depth == 0 => return self.tokens[before].span.start,
                "{" => depth -= 1,
                _ => {}
            }
        }
        0
    }

    /// Is there a jump between two places?
    pub(crate) fn jumps_between(&self, from: usize, to: usize) -> bool {
        let words = self.tokens.iter().filter(|token| token.span.start >= from && token.span.end <= to);
        words.into_iter().any(|token| {
            matches!(
                &self.source[token.span.clone()],
                "return" | "goto" | "break" | "continue" | "throw" | "}"
            )
        })
    }

    /// What the statement stores to, the store being at this place.
    pub(crate) fn stored(&self, statement: &Statement, line: u32, column: u32) -> Result<Target, Trouble> {
        let offset = self.offset(line, column).ok_or(Trouble::NotThere)?;
        let tokens = self.expression(statement, offset);
        let text = |token: &Token| &self.source[token.span.clone()];
        let mut depth = 0_i32;
        let mut assignments = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            match text(token) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                symbol if depth == 0 && ASSIGNMENTS.contains(&symbol) => assignments.push(index),
                _ => {}
            }
        }
        // Of a chain of assignments the one at the place, or the only one there is.
        let exact = assignments.iter().position(|&index| tokens[index].span.contains(&offset));
        let at_place = self.tokens.partition_point(|token| token.span.end <= offset);
        let is_call = self.tokens.get(at_place + 1).is_some_and(|next| text(next) == "(");
        if exact.is_none()
            && is_call
            && let Ok(target) = self.called(tokens, offset)
        {
            return Ok(target);
        }
        let one = exact.or((assignments.len() == 1).then_some(0));
        if let Some(which) = one {
            let start = which.checked_sub(1).map_or(0, |before| assignments[before] + 1);
            return self.lvalue(&tokens[start..assignments[which]]);
        }
        let step = |index: usize| tokens.get(index).map(text);
        if matches!(step(tokens.len().saturating_sub(1)), Some("++" | "--")) {
            return self.lvalue(&tokens[..tokens.len() - 1]);
        }
        if matches!(step(0), Some("++" | "--")) {
            return self.lvalue(&tokens[1..]);
        }
        self.called(tokens, offset)
    }

    /// The part of a statement between commas that holds the place; without the semicolon.
    fn expression<'t>(&self, statement: &'t Statement, offset: usize) -> &'t [Token] {
        let tokens = &statement.tokens[..statement.tokens.len() - 1];
        let (mut start, mut depth) = (0, 0_i32);
        for (index, token) in tokens.iter().enumerate() {
            match &self.source[token.span.clone()] {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "," if depth == 0 => {
                    if token.span.start > offset {
                        return &tokens[start..index];
                    }
                    start = index + 1;
                }
                _ => {}
            }
        }
        &tokens[start..]
    }

    /// The text of a row of tokens, as it stands in the source.
    fn text_of(&self, tokens: &[Token]) -> String {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => self.source[first.span.start..last.span.end].to_owned(),
            _ => String::new(),
        }
    }

    /// Tokens that name a place in memory.
    fn lvalue(&self, tokens: &[Token]) -> Result<Target, Trouble> {
        let text = self.text_of(tokens);
        if tokens.is_empty() {
            return Err(Trouble::NotUnderstood);
        }
        self.pure(tokens)?;
        // Two words side by side: a declaration.
        if tokens.windows(2).any(|pair| pair.iter().all(|token| token.kind == Kind::Word)) {
            return Err(Trouble::NotUnderstood);
        }
        Ok(Target { address: format!("&{}", grouped(&text)), length: format!("sizeof({text})"), small: true })
    }

    /// Can the tokens be evaluated twice?
    fn pure(&self, tokens: &[Token]) -> Result<(), Trouble> {
        let text = |token: &Token| &self.source[token.span.clone()];
        for (index, token) in tokens.iter().enumerate() {
            let call = text(token) == "(" && index > 0 && tokens[index - 1].kind == Kind::Word;
            let changes = matches!(text(token), "++" | "--") || ASSIGNMENTS.contains(&text(token));
            if changes || call && text(&tokens[index - 1]) != "sizeof" {
                return Err(Trouble::SideEffects(self.text_of(tokens)));
            }
        }
        Ok(())
    }

    /// A call that stores, or loads, by its arguments.
    fn called(&self, tokens: &[Token], offset: usize) -> Result<Target, Trouble> {
        let text = |token: &Token| &self.source[token.span.clone()];
        let named = |index: usize| {
            tokens[index].kind == Kind::Word && tokens.get(index + 1).is_some_and(|next| text(next) == "(")
        };
        let calls: Vec<usize> = (0..tokens.len()).filter(|&index| named(index)).collect();
        // The innermost that begins at or before the place, or the only one.
        let before = calls.iter().rev().find(|&&index| tokens[index].span.start <= offset);
        let Some(&call) = before.or(calls.first()) else { return Err(Trouble::NotUnderstood) };
        let name = text(&tokens[call]);
        let arguments = self.arguments(&tokens[call + 1..]);
        let argument = |number: usize| -> Result<String, Trouble> {
            let tokens = arguments.get(number).ok_or(Trouble::NotUnderstood)?;
            self.pure(tokens)?;
            Ok(self.text_of(tokens))
        };
        let in_call = || Trouble::InCall(name.to_owned());
        let bare = name.trim_start_matches("__builtin_").trim_start_matches("__").trim_end_matches("_chk");
        let atomic = ["atomic_", "sync_", "c11_atomic_"].iter().any(|prefix| bare.starts_with(prefix));
        match bare {
            "memcpy"
            | "memmove"
            | "memset"
            | "strncpy"
            | "pmem_memcpy_nodrain"
            | "pmem_memset_nodrain"
            | "pmem_memmove_nodrain"
            | "mempcpy" => Ok(Target { address: argument(0)?, length: argument(2)?, small: false }),
            "bzero" | "explicit_bzero" => {
                Ok(Target { address: argument(0)?, length: argument(1)?, small: false })
            }
            "strcpy" | "strcat" | "sprintf" | "stpcpy" => {
                let address = argument(0)?;
                Ok(Target { length: format!("strlen({address}) + 1"), address, small: false })
            }
            _ if atomic => {
                let address = argument(0)?;
                let length = match address.strip_prefix('&') {
                    Some(object) => format!("sizeof({})", object.trim()),
                    None => format!("sizeof(*{})", grouped(&address)),
                };
                Ok(Target { address, length, small: true })
            }
            "store"
            | "exchange"
            | "fetch_add"
            | "fetch_sub"
            | "fetch_or"
            | "fetch_and"
            | "load"
            | "compare_exchange_strong"
            | "compare_exchange_weak"
                if call > 1 && matches!(text(&tokens[call - 1]), "." | "->") =>
            {
                let object = &tokens[self.chain_start(tokens, call - 2)..call - 1];
                self.pure(object)?;
                let object = self.text_of(object);
                let pointer = text(&tokens[call - 1]) == "->";
                let (address, length) = match pointer {
                    true => (object.clone(), format!("sizeof(*{})", grouped(&object))),
                    false => (format!("&{}", grouped(&object)), format!("sizeof({object})")),
                };
                Ok(Target { address, length, small: true })
            }
            _ => Err(in_call()),
        }
    }

    /// The arguments of a call, whose tokens begin with the opening bracket.
    fn arguments<'t>(&self, tokens: &'t [Token]) -> Vec<&'t [Token]> {
        let (mut arguments, mut start, mut depth) = (Vec::new(), 1, 0_i32);
        for (index, token) in tokens.iter().enumerate() {
            match &self.source[token.span.clone()] {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth == 0 {
                        if index > start {
                            arguments.push(&tokens[start..index]);
                        }
                        break;
                    }
                }
                "," if depth == 1 => {
                    arguments.push(&tokens[start..index]);
                    start = index + 1;
                }
                _ => {}
            }
        }
        arguments
    }

    /// Where the row of `a->b[c].d` that ends at a token begins.
    fn chain_start(&self, tokens: &[Token], mut last: usize) -> usize {
        let text = |index: usize| &self.source[tokens[index].span.clone()];
        loop {
            while last > 0 && matches!(text(last), ")" | "]") {
                let mut depth = 0_i32;
                while last > 0 {
                    match text(last) {
                        ")" | "]" => depth += 1,
                        "(" | "[" => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                    last -= 1;
                }
                if last > 0 && text(last) == "[" {
                    last -= 1;
                } else {
                    break;
                }
            }
            if last >= 2 && matches!(text(last - 1), "." | "->" | "::") {
                last -= 2;
            } else {
                return last;
            }
        }
    }

    /// What a statement loads at this place.
    pub(crate) fn loaded(&self, statement: &Statement, line: u32, column: u32) -> Result<Target, Trouble> {
        let offset = self.offset(line, column).ok_or(Trouble::NotThere)?;
        let tokens = &statement.tokens[..];
        let at =
            tokens.iter().position(|token| token.span.contains(&offset)).ok_or(Trouble::NotUnderstood)?;
        let text = |index: usize| tokens.get(index).map_or("", |token| &self.source[token.span.clone()]);
        if tokens[at].kind != Kind::Word {
            return Err(Trouble::NotUnderstood);
        }
        if text(at + 1) == "(" || matches!(text(at + 1), "." | "->") && text(at + 3) == "(" {
            return self.called(&tokens[..tokens.len() - 1], tokens[at].span.start);
        }
        let start = self.chain_start(tokens, at);
        let mut end = at + 1;
        while text(end) == "[" {
            while end < tokens.len() && text(end) != "]" {
                end += 1;
            }
            end += 1;
        }
        self.lvalue(&tokens[start..end.min(tokens.len())])
    }
}

/// In brackets, if it is more than a row of names, fields and indices.
fn grouped(text: &str) -> String {
    let mut depth = 0;
    let plain = text.chars().all(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        depth > 0 || c.is_alphanumeric() || "_.->]: ".contains(c)
    });
    if plain { text.to_owned() } else { format!("({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statement and target of the store that the mark `@` stands before.
    fn stored(marked: &str) -> Result<(String, Target), Trouble> {
        let at = marked.find('@').expect("a mark");
        let source = marked.replace('@', "");
        let line = source[..at].matches('\n').count() as u32 + 1;
        let column = (at - source[..at].rfind('\n').map_or(0, |newline| newline + 1)) as u32 + 1;
        let text = Text::new(&source);
        let statement = text.statement(line, column)?;
        let target = text.stored(&statement, line, column)?;
        Ok((source[statement.span].to_owned(), target))
    }

    fn address(marked: &str) -> Result<String, Trouble> {
        stored(marked).map(|(_, target)| target.address)
    }

    #[test]
    fn what_is_assigned() {
        for (source, expected) in [
            ("{ a->next @= b; }", "&a->next"),
            ("{\n  table.slot[i] @= 3;\n}", "&table.slot[i]"),
            ("{ *p @= 3; }", "&(*p)"),
            ("{ t->b[k % 4] @= 3; }", "&t->b[k % 4]"),
            ("{ x @+= 3; }", "&x"),
            ("{ r->stat@++; }", "&r->stat"),
            ("{ @++r->stat; }", "&r->stat"),
            ("{ a = b->c @= 0; }", "&b->c"),
            ("{ @atomic_store(&q->head, h + 1); }", "&q->head"),
            ("{ @memcpy(n->key, key, sizeof key); }", "n->key"),
            ("{ @q->head.store(7); }", "&q->head"),
            ("{ long old = @atomic_fetch_add(&l->tail, 1); }", "&l->tail"),
            ("{ if (x)\n n->v @= 1;\n}", "&n->v"),
            ("{ case 3: n->v @= 1;\n}", "&n->v"),
        ] {
            assert_eq!(address(source).as_deref(), Ok(expected), "{source}");
        }
        let (statement, target) = stored("{\n  if (a)\n    n->v @= f(1, 2);\n}").unwrap();
        assert_eq!((statement.as_str(), target.length.as_str()), ("n->v = f(1, 2);", "sizeof(n->v)"));
    }

    #[test]
    fn what_cannot_be_patched_says_why() {
        for (source, expected) in [
            ("{ a @= 1; b = 2; }", Trouble::SeveralStatements),
            ("{ while (!@atomic_compare_exchange(&h, &e, n)) ; }", Trouble::InCondition),
            ("{ for (i @= 0; i < 3; i++)\n x();\n}", Trouble::InCondition),
            ("{ return p->x @= 3;\n}", Trouble::Leaves),
            ("{ @SET(p->x, 3);\n}", Trouble::InCall("SET".into())),
            ("{ *p++ @= 3;\n}", Trouble::SideEffects("*p++".into())),
            ("{ find(p)->x @= 3;\n}", Trouble::SideEffects("find(p)->x".into())),
        ] {
            assert_eq!(stored(source).map(|(_, target)| target), Err(expected), "{source}");
        }
        let text = Text::new("x = 1;\n");
        assert_eq!(text.statement(9, 1), Err(Trouble::NotThere));
    }

    #[test]
    fn what_is_loaded() {
        for (source, expected) in [
            ("{ long r = @atomic_load(&x.at);\n}", "&x.at"),
            ("{ r = p->@x;\n}", "&p->x"),
            ("{ r = q.a->b[2].@c + 1;\n}", "&q.a->b[2].c"),
            ("{ r = @table[i];\n}", "&table[i]"),
            ("{ auto r = q->@load();\n}", "q"),
        ] {
            let at = source.find('@').unwrap();
            let plain = source.replace('@', "");
            let text = Text::new(&plain);
            let statement = text.statement(1, at as u32 + 1).unwrap();
            let target = text.loaded(&statement, 1, at as u32 + 1);
            assert_eq!(target.map(|target| target.address).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_a_condition_accesses() {
        for (source, expected) in [
            ("{ while (tail - @atomic_load(&q->head) == 8)\n  f();\n}", "&q->head"),
            ("{ do { } while (!@atomic_compare_exchange_strong(&s->head, &h, n));\n}", "&s->head"),
            ("{ for (i = 0; i < @atomic_load(&t.n); i++)\n  f();\n}", "&t.n"),
            ("{ if (r->@x)\n  f();\n}", "&r->x"),
        ] {
            let at = source.find('@').unwrap() as u32 + 1;
            let plain = source.replace('@', "");
            let text = Text::new(&plain);
            let condition = text.condition(1, at).unwrap();
            assert_eq!(
                text.loaded(&condition, 1, at).map(|t| t.address).as_deref(),
                Ok(expected),
                "{source}"
            );
        }
        assert_eq!(Text::new("{ x = 1;\n}").condition(1, 3), Err(Trouble::NotUnderstood));
    }

    #[test]
    fn statements_without_braces_are_known() {
        let source = "{ if (a)\n  b = 1;\n else\n  c = 2;\n d = 3;\n}";
        let text = Text::new(source);
        let naked = |line| text.statement(line, 2).map(|statement| statement.naked);
        assert_eq!((naked(2), naked(4), naked(5)), (Ok(true), Ok(true), Ok(false)));
    }
}
