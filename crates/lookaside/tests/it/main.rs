//! The program as its users meet it, and the tree as its keepers want it.

mod tidy;
