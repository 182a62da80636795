#[path = "it/evaluation.rs"]
mod evaluation;
