//! Findings that may be artifacts of what the runtime did not see.

use crashproof_protocol::reason;

use crate::judge::{FailedRecovery, Violation};

/// Drops findings that may be artifacts of what the runtime did not see. A forked child's effects on persistent memory
/// are missing entirely; otherwise, a recovery that fails although nothing is lost proves nothing if not all stores are
/// known.
pub(crate) fn without_unseen(
    mut findings: Vec<FailedRecovery>,
    mut violations: Vec<Violation>,
    incomplete: &mut Vec<String>,
) -> (Vec<FailedRecovery>, Vec<Violation>) {
    let is_known = |reason| {
        let text = reason::text(reason).unwrap_or_default();
        incomplete.iter().any(|known| known.contains(text))
    };
    let before = findings.len() + violations.len();
    if is_known(reason::FORK) {
        findings.clear();
        violations.clear();
    } else if reason::UNSEEN_CONTENT.iter().any(|reason| is_known(*reason)) {
        findings.retain(|finding| finding.lost > 0);
    }
    let left_out = before - findings.len() - violations.len();
    if left_out > 0 {
        let what = if left_out == 1 { "1 finding" } else { &format!("{left_out} findings") };
        incomplete.push(format!(
            "{what} may result from untracked changes to persistent memory, and {} not reported",
            if left_out == 1 { "is" } else { "are" }
        ));
    }
    (findings, violations)
}
