//! Robustness.
use crate::program::Program;
use crate::prove::{Error, Options, Report};
/// Is the program robust?
///
/// # Errors
///
/// As for [`crate::prove::prove`].
pub fn prove(program: &Program, options: &Options) -> Result<Report, Error> {
    crate::prove::prove(program, options)
}
