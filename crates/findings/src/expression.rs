//! The name of an object in the source: the expression that a store assigns to, or a load reads, found in the text of
//! its line by the column in the debug information.
//!
//! Compilers point at the operator of an assignment (clang), at the start of the statement (rustc), at the name of a
//! member, or at the call that stores. If the text does not match, there is no name: a wrong one would be worse.

/// An object as the source names it: a variable, and the way from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The variable.
    pub root: String,
    /// The steps from the variable to the object.
    pub steps: Vec<Step>,
}

/// One step from an object to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// What a pointer points to.
    Deref,
    /// The target of a reference, implicit in the source.
    Follow,
    /// A member of the object, or of its target if it is a pointer.
    Member(String),
    /// An element, by the text between the brackets.
    Element(String),
}

/// Functions that store through one of their arguments, by its position. Families of names are in [`stored_through`].
const STORING: [(usize, &[&str]); 4] = [
    (
        0,
        &[
            "memcpy",
            "memmove",
            "memset",
            "mempcpy",
            "memccpy",
            "bzero",
            "explicit_bzero",
            "swab",
            "wmemcpy",
            "wmemset",
            "strcpy",
            "strncpy",
            "stpcpy",
            "stpncpy",
            "strlcpy",
            "strcat",
            "strncat",
            "strlcat",
            "wcscpy",
            "wcsncpy",
            "sprintf",
            "snprintf",
            "vsprintf",
            "vsnprintf",
            "fgets",
            "fread",
            "getcwd",
            "realpath",
            "strftime",
            "gettimeofday",
            "time",
            "getrandom",
            "gethostname",
            "qsort",
            "uuid_generate",
            "write",
            "write_volatile",
            "write_unaligned",
        ],
    ),
    (
        1,
        &[
            "__builtin_nontemporal_store",
            "bcopy",
            "read",
            "pread",
            "recv",
            "recvfrom",
            "stat",
            "fstat",
            "lstat",
            "clock_gettime",
            "gmtime_r",
            "localtime_r",
            "readlink",
            "ctime_r",
            "asctime_r",
            "mbstowcs",
            "wcstombs",
            "frexp",
            "modf",
        ],
    ),
    (2, &["inet_pton", "inet_ntop", "readlinkat", "fstatat", "_mm_maskmoveu_si128", "_mm_maskmove_si64"]),
    (3, &["strerror_r"]),
];

/// Which argument a function stores through.
fn stored_through(name: &str) -> Option<usize> {
    // What the compiler calls with -D_FORTIFY_SOURCE.
    let name = name.strip_prefix("__").and_then(|it| it.strip_suffix("_chk")).unwrap_or(name);
    let listed = STORING.iter().find(|(_, names)| names.contains(&name)).map(|(position, _)| *position);
    let vector = name.starts_with("_mm") && (name.contains("store") || name.contains("stream"));
    let first = ["pmem_mem", "__atomic_", "atomic_", "__sync_"];
    listed
        .or_else(|| (vector || first.iter().any(|family| name.starts_with(family))).then_some(0))
        .or_else(|| name.starts_with("pmemobj_mem").then_some(1))
}

/// Functions that load through their first argument.
const LOADING: [&str; 10] = [
    "atomic_load",
    "atomic_load_explicit",
    "__atomic_load_n",
    "memcmp",
    "strcmp",
    "strncmp",
    "strlen",
    "read",
    "read_volatile",
    "read_unaligned",
];

/// Methods that access what they are called on.
const METHODS: [&str; 16] = [
    "store",
    "load",
    "swap",
    "exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "compare_exchange",
    "compare_exchange_weak",
    "compare_exchange_strong",
    "copy_from_slice",
    "clone_from_slice",
    "fill",
    "write",
    "read",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    /// Operators and brackets.
    Sign(&'t str),
}

/// The signs of more than one character that matter here; longer ones first.
const SIGNS: [&str; 25] = [
    "<<=", ">>=", "...", "->", "::", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "==", "!=",
    "<=", ">=", "&&", "||", "<<", ">>", "..", "=>",
];

fn tokens(line: &str) -> Vec<(usize, Token<'_>)> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(next) = line[at..].chars().next() {
        let rest = &line[at..];
        let word = |it: char| it.is_alphanumeric() || it == '_';
        if next.is_whitespace() {
            at += next.len_utf8();
        } else if rest.starts_with("//") {
            break;
        } else if word(next) {
            let end = rest.find(|it| !word(it)).unwrap_or(rest.len());
            all.push((at, Token::Word(&rest[..end])));
            at += end;
        } else if next == '"' || next == '\'' {
            let mut escaped = false;
            let close = rest.char_indices().skip(1).find(|(_, it)| {
                let ends = *it == next && !escaped;
                escaped = *it == '\\' && !escaped;
                ends
            });
            let end = close.map_or(rest.len(), |(end, _)| end + 1);
            all.push((at, Token::Sign(&rest[..end])));
            at += end;
        } else {
            let length =
                SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(next.len_utf8(), |it| it.len());
            all.push((at, Token::Sign(&rest[..length])));
            at += length;
        }
    }
    all
}

fn is_assignment(token: Token) -> bool {
    matches!(
        token,
        Token::Sign(
            "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=" | "++" | "--"
        )
    )
}

/// The target of a store or load, given the column (from 1, in bytes) of its instruction. rustc points at the start of
/// what is loaded, clang at the name of the member.
pub fn object_at(line: &str, column: u32, stores: bool, rust: bool) -> Option<Expression> {
    let at = (column as usize).checked_sub(1)?;
    let all = tokens(line);
    let index = all.iter().position(|(start, _)| *start >= at)?;
    let tokens: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    if all[index].0 != at {
        return None;
    }
    // A Rust macro, whose expansion is not in the text.
    let called = (tokens.get(index + 1), tokens.get(index + 2));
    if rust && matches!(called, (Some(Token::Sign("!")), Some(Token::Sign("(" | "[" | "{")))) {
        return None;
    }
    let parser = Parser { tokens: &tokens };
    match tokens[index] {
        token if is_assignment(token) && stores => {
            // Of `++x` the operand follows.
            let prefix = matches!(token, Token::Sign("++" | "--")) && !parser.ends_operand(index);
            if prefix {
                return parser.unary(index + 1).map(|found| found.0);
            }
            let start = parser.start_of_operand(index)?;
            parser.whole(start, index)
        }
        Token::Word(_) if !stores => {
            let start = parser.start_of_operand(index + 1)?;
            if let Some(called) = parser.call(index) {
                return called;
            }
            // A load of a member stands at its name; elements of it follow.
            let (mut object, mut next) = parser.unary(start)?;
            if rust {
                return Some(object);
            }
            if next <= index {
                return None;
            }
            while next > index + 1 && tokens[index + 1] != Token::Sign("[") {
                (object, next) = (parser.whole(start, index + 1)?, index + 1);
            }
            Some(object)
        }
        Token::Word(_) => {
            if let Some(placed) = parser.placed(index) {
                return Some(placed);
            }
            if let Some(called) = parser.call(index) {
                return called;
            }
            let (object, next) = parser.unary(index)?;
            match tokens.get(next) {
                Some(token) if is_assignment(*token) => Some(object),
                Some(Token::Sign("(")) => None,
                _ => None,
            }
        }
        Token::Sign("*" | "(") => {
            let (object, next) = parser.unary(index)?;
            let assigned = tokens.get(next).is_some_and(|token| is_assignment(*token));
            // Of `*self.record(i)` the method is the way to the object, and no part of its name.
            let goes_on = matches!(tokens.get(next), Some(Token::Sign("." | "->" | "(")));
            if stores { assigned } else { !goes_on }.then_some(object)
        }
        // Optimized code loads and compares in one instruction, at the operator.
        Token::Sign("<" | ">" | "<=" | ">=" | "==" | "!=" | "+" | "-" | "&" | "|" | "^" | "%") if !stores => {
            parser.memory_operand(index)
        }
        _ => None,
    }
}

/// The target of a store as written, for messages, if it is too complex for an [`Expression`].
pub fn written_at(line: &str, column: u32) -> Option<String> {
    const LONGEST: usize = 40;
    let at = (column as usize).checked_sub(1)?;
    let all = tokens(line);
    let index = all.iter().position(|(start, _)| *start == at)?;
    let tokens: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let parser = Parser { tokens: &tokens };
    let text = match tokens[index] {
        token if is_assignment(token) => {
            let start = parser.start_of_operand(index)?;
            line[all[start].0..all[index].0].trim().to_owned()
        }
        Token::Word(_) => {
            // A path: the last part is the name.
            let mut last = index;
            while parser.at(last + 1) == Some(Token::Sign("::")) {
                last += 2;
            }
            match parser.at(last)? {
                Token::Word(name) if let Some(position) = stored_through(name) => {
                    arguments(line, all.get(last + 1..)?)?.into_iter().nth(position)?
                }
                _ => {
                    let end = parser.assignment_of_statement(index)?;
                    line[at..all[end].0].trim().to_owned()
                }
            }
        }
        _ => return None,
    };
    let text = text.strip_prefix('&').map_or(text.clone(), str::to_owned);
    (!text.is_empty() && text.len() <= LONGEST).then_some(text)
}

/// What is loaded if the variable that stands at the column is not: clang points at the beginning of elements, and of what a
/// conversion reads.
pub fn element_at(line: &str, column: u32) -> Option<Expression> {
    let at = (column as usize).checked_sub(1)?;
    let all = tokens(line);
    let index = all.iter().position(|(start, _)| *start == at)?;
    let tokens: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let parser = Parser { tokens: &tokens };
    let (mut object, _) = parser.unary(index)?;
    let element = object.steps.iter().rposition(|step| matches!(step, Step::Element(_)));
    if let Some(last) = element {
        object.steps.truncate(last + 1);
    }
    (!object.steps.is_empty()).then_some(object)
}

/// What the only assignment of a statement stores to, wherever in it the column points: compilers that optimize point at what is
/// computed.
pub fn assigned_around(line: &str, column: u32) -> Option<Expression> {
    let at = (column as usize).checked_sub(1)?;
    let all = tokens(line);
    let ends = |token: Token| matches!(token, Token::Sign(";" | "{" | "}"));
    let index = all.iter().rposition(|(start, _)| *start <= at)?;
    let from = all[..index].iter().rposition(|(_, token)| ends(*token)).map_or(0, |it| it + 1);
    let to = all[index..].iter().position(|(_, token)| ends(*token)).map_or(all.len(), |it| index + it);
    let tokens: Vec<Token> = all[from..to].iter().map(|(_, token)| *token).collect();
    let mut assignments = (0..tokens.len()).filter(|it| is_assignment(tokens[*it]));
    let only = assignments.next().filter(|_| assignments.next().is_none())?;
    // Of `for (...)` and `if (...)` nothing is guessed.
    let parser = Parser { tokens: &tokens };
    parser.whole(0, only)
}

/// The macro that is called at the column, and its arguments as they are written.
pub fn macro_call(line: &str, column: u32) -> Option<(String, Vec<String>)> {
    let at = (column as usize).checked_sub(1)?;
    let all = tokens(line);
    let index = all.iter().position(|(start, _)| *start == at)?;
    let (Token::Word(name), Some((_, Token::Sign("(")))) = (all[index].1, all.get(index + 1)) else {
        return None;
    };
    Some((name.to_owned(), arguments(line, &all[index + 1..])?))
}

/// What stands between brackets, separated by commas; the first token opens them.
fn arguments(line: &str, tokens: &[(usize, Token)]) -> Option<Vec<String>> {
    tokens.first().filter(|(_, token)| *token == Token::Sign("("))?;
    let (mut depth, mut from, mut found) = (0, tokens.first()?.0 + 1, Vec::new());
    for (start, token) in tokens {
        match token {
            Token::Sign("(" | "[" | "{") => depth += 1,
            Token::Sign(")" | "]" | "}") => depth -= 1,
            Token::Sign(",") if depth == 1 => {
                found.push(line[from..*start].trim().to_owned());
                from = start + 1;
            }
            _ => {}
        }
        if depth == 0 {
            found.push(line[from..*start].trim().to_owned());
            return Some(found);
        }
    }
    None
}

/// Which of its arguments a macro assigns to, by the text of its definition; the first if there are several.
pub fn assigned_argument(definition: &str, name: &str) -> Option<usize> {
    let rest = definition.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
    let rest = rest.trim_start().strip_prefix(name)?;
    let all = tokens(rest);
    let parameters = arguments(rest, &all).filter(|_| rest.starts_with('('))?;
    let tokens: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let parser = Parser { tokens: &tokens };
    let assigned = (0..tokens.len()).filter(|it| is_assignment(tokens[*it])).find_map(|it| {
        let start = parser.start_of_operand(it)?;
        parser.whole(start, it).filter(|object| object.steps.is_empty())
    })?;
    parameters.iter().position(|parameter| *parameter == assigned.root)
}

/// An expression that stands alone.
pub fn object(text: &str) -> Option<Expression> {
    let all = tokens(text);
    let tokens: Vec<Token> = all.iter().map(|(_, token)| *token).collect();
    let parser = Parser { tokens: &tokens };
    parser.whole(0, tokens.len())
}

struct Parser<'t> {
    tokens: &'t [Token<'t>],
}

impl Parser<'_> {
    /// The assignment of the statement that begins at a token, which is where rustc points.
    fn assignment_of_statement(&self, start: usize) -> Option<usize> {
        let begins = start == 0 || matches!(self.at(start - 1), Some(Token::Sign(";" | "{" | "}")));
        let declares = matches!(self.at(start), Some(Token::Word("let" | "if" | "while" | "for" | "return")));
        if !begins || declares {
            return None;
        }
        let mut depth = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(start) {
            match token {
                Token::Sign("(" | "[") => depth += 1,
                Token::Sign(")" | "]") => depth = depth.checked_sub(1)?,
                Token::Sign(";" | "{" | "}") => return None,
                token if depth == 0 && is_assignment(*token) => return Some(index),
                _ => {}
            }
        }
        None
    }

    fn at(&self, index: usize) -> Option<Token<'_>> {
        self.tokens.get(index).copied()
    }

    /// Does an operand end just before this token?
    fn ends_operand(&self, index: usize) -> bool {
        index > 0 && matches!(self.tokens[index - 1], Token::Word(_) | Token::Sign(")" | "]"))
    }

    /// The bracket that belongs to the one at `close`.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        for index in (0..=close).rev() {
            match self.tokens[index] {
                Token::Sign(")" | "]") => depth += 1,
                Token::Sign("(" | "[") => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The bracket that belongs to the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for index in open..self.tokens.len() {
            match self.tokens[index] {
                Token::Sign("(" | "[") => depth += 1,
                Token::Sign(")" | "]") => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Where the operand begins that ends just before `end`.
    fn start_of_operand(&self, end: usize) -> Option<usize> {
        let mut start = end;
        loop {
            start = match self.at(start.checked_sub(1)?)? {
                Token::Sign("]" | ")") => self.opening(start - 1)?,
                Token::Word(_) => start - 1,
                _ => return None,
            };
            // What indexes or calls something belongs to it.
            let bracket = matches!(self.tokens[start], Token::Sign("[" | "("));
            if bracket && self.ends_operand(start) {
                continue;
            }
            match start.checked_sub(1).and_then(|before| self.at(before)) {
                Some(Token::Sign("." | "->" | "::")) => start -= 1,
                Some(Token::Sign("*")) if !self.ends_operand(start - 1) => return Some(start - 1),
                _ => return Some(start),
            }
        }
    }

    /// The operand of an operator that is in memory, if only one of the two can be: a variable may be in a register.
    fn memory_operand(&self, operator: usize) -> Option<Expression> {
        let left = self.start_of_operand(operator).and_then(|start| self.whole(start, operator));
        let right = self.unary(operator + 1).map(|(object, _)| object);
        let in_memory = |it: &Expression| !it.steps.is_empty();
        match (left.filter(in_memory), right.filter(in_memory)) {
            (Some(one), None) | (None, Some(one)) => Some(one),
            _ => None,
        }
    }

    /// The object that is all the tokens of a range.
    fn whole(&self, start: usize, end: usize) -> Option<Expression> {
        let part = Parser { tokens: &self.tokens[..end] };
        part.unary(start).filter(|(_, next)| *next == end).map(|(object, _)| object)
    }

    /// The object of `new (&object) T(...)`, at the constructor.
    fn placed(&self, index: usize) -> Option<Expression> {
        let close = index.checked_sub(1).filter(|it| self.tokens[*it] == Token::Sign(")"))?;
        let open = self.opening(close)?;
        let new = open.checked_sub(1).is_some_and(|it| self.tokens[it] == Token::Word("new"));
        if new { self.argument(open + 1) } else { None }
    }

    /// The object of a call that stores or loads, if this is the name of one; an inner none if it is another call.
    fn call(&self, index: usize) -> Option<Option<Expression>> {
        let Token::Word(name) = self.at(index)? else { return None };
        let mut last = (index, name);
        // A path: the last part is the name.
        while self.at(last.0 + 1) == Some(Token::Sign("::")) {
            let Some(Token::Word(part)) = self.at(last.0 + 2) else { return Some(None) };
            last = (last.0 + 2, part);
        }
        let (at, name) = last;
        let method = index > 0 && matches!(self.tokens[index - 1], Token::Sign("." | "->"));
        if self.at(at + 1) != Some(Token::Sign("(")) {
            return self.method_after(index);
        }
        if method {
            if !METHODS.contains(&name) {
                return Some(None);
            }
            let start = self.start_of_operand(index - 1);
            return Some(start.and_then(|start| self.whole(start, index - 1)));
        }
        let through = stored_through(name).and_then(|position| self.beginning_of_argument(at + 1, position));
        if let Some(start) = through {
            return Some(self.argument(start));
        }
        let by_address = self.at(at + 2) == Some(Token::Sign("&"));
        if !by_address && !LOADING.contains(&name) {
            return Some(None);
        }
        Some(self.argument(at + 2))
    }

    /// The first token of an argument, given the bracket that opens the call.
    fn beginning_of_argument(&self, open: usize, position: usize) -> Option<usize> {
        let (mut depth, mut passed) = (0_usize, 0);
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            if depth == 1 && passed == position && index > open {
                return Some(index);
            }
            match token {
                Token::Sign("(" | "[" | "{") => depth += 1,
                Token::Sign(")" | "]" | "}") => depth = depth.checked_sub(1)?,
                Token::Sign(",") if depth == 1 => passed += 1,
                _ => {}
            }
            if depth == 0 {
                return None;
            }
        }
        None
    }

    /// `self.head.store(..)`, when the column is that of its beginning.
    fn method_after(&self, index: usize) -> Option<Option<Expression>> {
        if index > 0 && matches!(self.tokens[index - 1], Token::Sign("." | "->")) {
            return None;
        }
        let (object, next) = self.unary(index)?;
        let Some(Token::Sign("." | "->")) = self.at(next) else { return None };
        let Some(Token::Word(name)) = self.at(next + 1) else { return None };
        (self.at(next + 2) == Some(Token::Sign("("))).then(|| METHODS.contains(&name).then_some(object))
    }

    /// The object that an argument points to.
    fn argument(&self, index: usize) -> Option<Expression> {
        let mut index = self.after_cast(index);
        let address = self.at(index) == Some(Token::Sign("&"));
        if address {
            index += 1;
            while matches!(self.at(index), Some(Token::Word("mut" | "raw" | "const"))) {
                index += 1;
            }
        }
        let (mut object, next) = self.unary(index)?;
        if !matches!(self.at(next), Some(Token::Sign("," | ")"))) {
            return None;
        }
        if !address {
            object.steps.push(Step::Deref);
        }
        Some(object)
    }

    /// Behind a cast, if there is one.
    fn after_cast(&self, index: usize) -> usize {
        let is_type = |open: usize, close: usize| {
            let inner = &self.tokens[open + 1..close];
            !inner.is_empty()
                && inner
                    .iter()
                    .all(|token| matches!(token, Token::Word(_) | Token::Sign("*" | "::" | "<" | ">")))
                && matches!(inner.last(), Some(Token::Sign("*")))
        };
        match self.at(index) {
            Some(Token::Sign("(")) => match self.closing(index) {
                Some(close) if is_type(index, close) => self.after_cast(close + 1),
                _ => index,
            },
            _ => index,
        }
    }

    /// An operand with its prefixes; gives the token after it, too.
    fn unary(&self, index: usize) -> Option<(Expression, usize)> {
        let index = self.after_cast(index);
        if self.at(index) == Some(Token::Sign("*")) {
            let (mut object, next) = self.unary(index + 1)?;
            object.steps.push(Step::Deref);
            return Some((object, next));
        }
        let (mut object, mut next) = match self.at(index)? {
            Token::Word(name) if !name.starts_with(|it: char| it.is_ascii_digit()) => {
                let (mut root, mut next) = (name, index + 1);
                while let (Some(Token::Sign("::")), Some(Token::Word(part))) =
                    (self.at(next), self.at(next + 1))
                {
                    (root, next) = (part, next + 2);
                }
                (Expression { root: root.to_owned(), steps: Vec::new() }, next)
            }
            Token::Sign("(") => {
                let close = self.closing(index)?;
                let (inner, next) = self.unary(index + 1)?;
                if next != close {
                    return None;
                }
                (inner, close + 1)
            }
            _ => return None,
        };
        loop {
            match (self.at(next), self.at(next + 1)) {
                (Some(Token::Sign(sign @ ("." | "->"))), Some(Token::Word(name))) => {
                    if self.at(next + 2) == Some(Token::Sign("(")) {
                        return Some((object, next));
                    }
                    if sign == "->" {
                        object.steps.push(Step::Deref);
                    }
                    object.steps.push(Step::Member(name.to_owned()));
                    next += 2;
                }
                (Some(Token::Sign("[")), _) => {
                    let close = self.closing(next)?;
                    let text: String = self.tokens[next + 1..close].iter().map(Token::text).collect();
                    object.steps.push(Step::Element(text));
                    next = close + 1;
                }
                _ => return Some((object, next)),
            }
        }
    }
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) | Token::Sign(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str, column: u32, stores: bool) -> Option<String> {
        object_at(line, column, stores, false).map(|object| {
            let mut text = object.root;
            for (number, step) in object.steps.iter().enumerate() {
                match step {
                    // Of what a pointer points to.
                    Step::Deref if matches!(object.steps.get(number + 1), Some(Step::Member(_))) => {}
                    Step::Deref => text = format!("(*{text})"),
                    Step::Follow => {}
                    Step::Member(name) => text = format!("{text}.{name}"),
                    Step::Element(index) => text = format!("{text}[{index}]"),
                }
            }
            text
        })
    }

    /// The column of what follows the mark.
    fn at(line: &str, stores: bool) -> Option<String> {
        let column = line.find('$').expect("a mark") as u32 + 1;
        text(&line.replace('$', ""), column, stores)
    }

    #[test]
    fn what_is_written_is_shown_as_it_is_written() {
        let at = |line: &str, part: &str| written_at(line, line.find(part).expect("it is there") as u32 + 1);
        assert_eq!(at("  h()->buckets[b] = o;", "= ").as_deref(), Some("h()->buckets[b]"));
        let copy = "  std::memcpy(e->data + k.size(), v.data(), v.size());";
        assert_eq!(at(copy, "std").as_deref(), Some("e->data + k.size()"));
        assert_eq!(at("memset(&pair->late, 0, 8);", "memset").as_deref(), Some("pair->late"));
        assert_eq!(at("  fill(e, 3);", "fill"), None);
        let rust = "        self.header_mut().len += 1;";
        assert_eq!(at(rust, "self").as_deref(), Some("self.header_mut().len"));
        assert_eq!(at("    let n = f();", "let"), None);
        assert_eq!(at("    x.go(|y| y.a = 1);", "x"), None);
        assert_eq!(at("  if (a == b) {", "=="), None);
    }

    #[test]
    fn what_a_macro_of_rust_reads_has_no_name() {
        let line = "        assert_eq!(log.get(n), b\"record\");";
        assert_eq!(object_at(line, 9, false, true), None);
    }

    #[test]
    fn what_an_operator_reads() {
        for (line, object) in [
            ("for (i = 0; i $< t->count; i++)", Some("t.count")),
            ("  if (log->records[i].length $!= 3)", Some("log.records[i].length")),
            ("  if (a->x $== b->x)", None),
            ("  if (x $== y)", None),
        ] {
            assert_eq!(at(line, false).as_deref(), object, "{line}");
        }
    }

    #[test]
    fn what_is_assigned_to() {
        for (line, object) in [
            ("  child->data $= data;", "child.data"),
            ("  t->slots[i].val $= 3;", "t.slots[i].val"),
            ("  a->b.c $+= 1;", "a.b.c"),
            ("  t->count$++;", "t.count"),
            ("  $++t->count;", "t.count"),
            ("  *p $= 1;", "(*p)"),
            ("  $(*t).count = 1;", "t.count"),
            ("  $slot.value = v;", "slot.value"),
            ("  $self.slots[n & 3].key = k;", "self.slots[n&3].key"),
            ("  x $= 1;", "x"),
            ("  a[i][j] $= b[k];", "a[i][j]"),
        ] {
            assert_eq!(at(line, true).as_deref(), Some(object), "{line}");
        }
    }

    #[test]
    fn what_calls_store_to() {
        for (line, object) in [
            ("  $memcpy(s->val, v, 40);", "(*s.val)"),
            ("  $memcpy(&s->val, v, 40);", "s.val"),
            ("  $memset((char *)s + 0, 0, 4);", "none"),
            ("  $strcpy((char *)s->name, n);", "(*s.name)"),
            ("  $__builtin_nontemporal_store((char)7, &p->a);", "p.a"),
            ("  $_mm256_maskstore_epi64((long long *)p->a, mask(1, 2), value);", "(*p.a)"),
            ("  $stpncpy(p->a, \"12\", 8);", "(*p.a)"),
            ("  $fstat(open(path, 0), &p->status);", "p.status"),
            ("  $__snprintf_chk(p->name, 8, 0, 8, \"%d\", 3);", "(*p.name)"),
            ("  $pmemobj_memcpy_persist(pop, p->name, name, 8);", "(*p.name)"),
            ("  $atomic_store(&queue->head, head + 1);", "queue.head"),
            ("  head.$store(n, std::memory_order_release);", "head"),
            ("  q->tail.$store(n);", "q.tail"),
            ("  $self.head.store(1, Ordering::SeqCst);", "self.head"),
            ("  $ptr::write(p, 3);", "(*p)"),
            ("  $ptr::write(&mut (*p).a, 3);", "p.a"),
            ("  $set(&x->y, 3);", "x.y"),
            ("  $set(x, 3);", "none"),
        ] {
            assert_eq!(at(line, true).unwrap_or("none".into()), object, "{line}");
        }
    }

    #[test]
    fn what_is_read() {
        for (line, object) in [
            ("  if (t->$count > 3)", "t.count"),
            ("  return t->slots[i].$val;", "t.slots[i].val"),
            ("  if (t->$slots[i].val == 3)", "none"),
            ("  x = $a[i];", "a[i]"),
            ("  x = $*p;", "(*p)"),
            ("  while ($node) {", "node"),
            ("  if ($self.count > 2 {", "none"),
            ("  head.$load(std::memory_order_acquire);", "head"),
        ] {
            let found = at(line, false).unwrap_or("none".into());
            assert!(found == object || object == "none", "{line}: {found}");
        }
    }

    #[test]
    fn what_a_constructor_is_placed_at() {
        assert_eq!(at("  new (&items_[size_]) $T(t);", true).as_deref(), Some("items_[size_]"));
        assert_eq!(at("  new (place) $T(t);", true).as_deref(), Some("(*place)"));
        assert_eq!(at("  f(a) $T(t);", true), None);
    }

    #[test]
    fn elements_that_are_loaded_at_their_beginning() {
        let whole =
            |line: &str| element_at(line, line.find(|it: char| it.is_alphabetic()).unwrap_or(0) as u32 + 1);
        let steps = |line: &str| whole(line).map(|it| (it.root, it.steps.len()));
        assert_eq!(steps("kv->entries[i].value[0] == 0"), Some(("kv".into(), 5)));
        assert_eq!(steps("a->rows[i]->x"), Some(("a".into(), 3)));
        assert_eq!(steps("s.key == 0"), Some(("s".into(), 1)));
        assert_eq!(steps("n > 0"), None);
    }

    #[test]
    fn the_only_assignment_of_a_statement() {
        let root = |line: &str, column| assigned_around(line, column).map(|it| (it.root, it.steps.len()));
        assert_eq!(root("  r->head = h + 1;", 15), Some(("r".into(), 2)));
        assert_eq!(root("  a = b = c;", 11), None);
        assert_eq!(root("  for (i = 0; i < n; i++) x[i] = 3;", 30), None);
        assert_eq!(root("  p->x = 1; p->y = 2;", 20), Some(("p".into(), 2)));
    }

    #[test]
    fn what_a_macro_assigns_to() {
        let definition = "#define SET(lv, v) do { (lv) = (v); FLUSH(&(lv)); } while (0)";
        assert_eq!(assigned_argument(definition, "SET"), Some(0));
        assert_eq!(assigned_argument("#define GET(a, b) ((a) == (b))", "GET"), None);
        assert_eq!(assigned_argument("#define SETTER 3", "SET"), None);
        let call = macro_call("  SET(d->words, f(a, b));", 3).expect("a call");
        assert_eq!(call, ("SET".into(), vec!["d->words".into(), "f(a, b)".into()]));
        assert_eq!(object("d->words").map(|it| it.steps.len()), Some(2));
    }

    #[test]
    fn nothing_is_guessed() {
        assert_eq!(text("  x = 1;", 50, true), None);
        assert_eq!(text("  x = 1;", 0, true), None);
        assert_eq!(text("", 1, true), None);
        assert_eq!(text("  f(a)(b)[ = 1;", 13, true), None);
    }
}
