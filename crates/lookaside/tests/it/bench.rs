//! Runs the benchmarks of the product on minimal inputs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::run;

/// The benchmarks, each with its smallest input and the number of its cases.
const SMALLEST: [(&[&str], usize); 4] = [
    (&["lookup", "--rows", "100", "--range-count", "100"], 7),
    (&["oml", "--rows", "100"], 3),
    (&["enrich", "--events", "100", "--range-count", "100"], 2),
    (&["load", "--range-count", "100"], 1),
];

#[test]
fn each_benchmark_says_what_an_operation_costs() {
    for (arguments, case_count) in SMALLEST {
        let options = ["--seconds", "0.001", "--rounds", "1", "--json"];
        let said = run([&["bench"], arguments, &options].concat()).ended(0);
        let cases: Vec<Value> = (said.out.lines())
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        assert_eq!(cases.len(), case_count, "{cases:?}");
        for case in &cases {
            assert_eq!(case["bench"], arguments[0], "{case}");
            assert!(case["ops"].as_u64() > Some(0), "{case}");
            assert!(case["wall_ns_per_op"]["min"].as_f64() > Some(0.0), "{case}");
        }
        let names: BTreeSet<_> = cases.iter().map(|case| case["case"].as_str()).collect();
        assert_eq!(names.len(), case_count, "{cases:?}");
    }
}

#[test]
fn the_help_lists_the_benchmarks_of_the_product() {
    let help = run(["bench", "--help"]).ended(0).out;
    let listed: BTreeSet<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let expected = SMALLEST.iter().map(|(arguments, _)| arguments[0]);
    assert_eq!(listed, expected.chain(["help"]).collect(), "{help}");
}
