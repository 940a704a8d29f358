//! `#[crashproof::test(recover = path)]`: use it through the crate `crashproof-test`, which documents it.
//!
//! A separate crate, as the compiler requires: a library that defines attributes can define nothing else. It reads
//! tokens itself, so that tests that use it do not depend on a Rust parser.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

/// A test that is run again to recover after each crash; with `recover = path`, that function is called instead.
#[proc_macro_attribute]
pub fn test(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match expanded(attribute, item) {
        Ok(tokens) => tokens,
        Err((message, span)) => error(message, span),
    }
}

type Trouble = (&'static str, Span);

/// The test with a call of its recovery before its body.
fn expanded(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Trouble> {
    let recover = recovery(attribute)?;
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        other => {
            let span = other.map_or_else(Span::call_site, |token| token.span());
            return Err(("only functions can be tests", span));
        }
    };
    if !tokens.iter().any(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn")) {
        return Err(("only functions can be tests", body.span()));
    }
    let mut made: TokenStream =
        "#[::core::prelude::v1::test]".parse().map_err(|_| ("cannot be made", body.span()))?;
    made.extend(tokens);
    let mut inside = TokenStream::new();
    if !recover.is_empty() {
        let condition: TokenStream =
            "if ::crashproof::crashes() > 0".parse().map_err(|_| ("cannot be made", body.span()))?;
        let mut call: TokenStream = TokenTree::from(Ident::new("return", Span::call_site())).into();
        call.extend(recover);
        call.extend([
            TokenTree::from(Group::new(Delimiter::Parenthesis, TokenStream::new())),
            TokenTree::from(Punct::new(';', Spacing::Alone)),
        ]);
        inside.extend(condition);
        inside.extend([TokenTree::from(Group::new(Delimiter::Brace, call))]);
    }
    inside.extend(body.stream());
    let mut whole = Group::new(Delimiter::Brace, inside);
    whole.set_span(body.span());
    made.extend([TokenTree::from(whole)]);
    Ok(made)
}

/// The path of `recover = path`; empty if there is none.
fn recovery(attribute: TokenStream) -> Result<Vec<TokenTree>, Trouble> {
    let mut tokens = attribute.into_iter();
    let Some(first) = tokens.next() else { return Ok(Vec::new()) };
    let expected = "expected `recover = path`, where the path is that of a function without arguments";
    if first.to_string() != "recover" {
        return Err((expected, first.span()));
    }
    match tokens.next() {
        Some(TokenTree::Punct(sign)) if sign.as_char() == '=' => {}
        other => return Err((expected, other.map_or_else(|| first.span(), |token| token.span()))),
    }
    let path: Vec<TokenTree> = tokens.collect();
    let of_path = |token: &TokenTree| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(sign) => matches!(sign.as_char(), ':' | '<' | '>' | ','),
        _ => false,
    };
    match path.iter().find(|token| !of_path(token)) {
        Some(other) => Err((expected, other.span())),
        None if path.is_empty() => Err((expected, first.span())),
        None => Ok(path),
    }
}

fn error(message: &str, span: Span) -> TokenStream {
    let text: TokenStream = format!("::core::compile_error!({message:?});").parse().unwrap_or_default();
    text.into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}
