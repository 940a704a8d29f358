//! A macro, with a test of its own.
use proc_macro::TokenStream;

#[proc_macro]
pub fn number(_: TokenStream) -> TokenStream {
    "7".parse().expect("a number")
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_the_compiler() {}
}
