//! Sets of models, and their selection by rule keys.

use lookaside_oml::ModelSet;

fn set(sources: &[(&str, &str)]) -> Result<ModelSet, String> {
    ModelSet::from_sources(sources.iter().copied()).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })
}

#[test]
fn the_first_enabled_match_is_chosen() {
    let set = set(&[
        (
            "a",
            "name : a rule : /web/eu/* enable : false --- * = take() ;",
        ),
        ("b", "name : b rule : /web/* /app/*/log --- * = take() ;"),
        ("c", "name : c rule : * --- * = take() ;"),
        ("d", "name : d --- * = take() ;"),
    ])
    .unwrap();
    for (key, expected) in [
        ("/web/eu/1", "b"),
        ("/app/x/y/log", "b"),
        ("/app/log", "c"),
        ("", "c"),
    ] {
        let chosen = set.choose(key).map(|model| model.name().as_str());
        assert_eq!(chosen, Some(expected), "{key}");
    }
    assert_eq!(set.len(), 4);
    assert!(!set.by_name("a").unwrap().enabled());
    assert!(set.by_name("e").is_none());
}

#[test]
fn no_rule_no_choice() {
    let set = set(&[("d", "name : d --- * = take() ;")]).unwrap();
    assert!(set.choose("/d").is_none());
    assert!(set.by_name("d").is_some());
    assert!(ModelSet::default().is_empty());
}

#[test]
fn errors_of_all_models_are_shown() {
    let errors = set(&[
        ("a.oml", "name : a --- x = raed(y) ;"),
        ("b.oml", "name : b --- * = take() ;"),
        ("c.oml", "name : b --- * = take() ;"),
        ("d.oml", "name : d --- x = 1 ;"),
    ]);
    assert_eq!(
        errors.unwrap_err(),
        "a.oml:1:18: error: unknown function or type `raed` (did you mean `read`?)\n\
         c.oml:1:8: error: a model of this name already exists in b.oml\n\
         d.oml:1:18: error: expected a value, found `1` (a number is written `digit(1)`)"
    );
}

#[test]
fn a_broken_model_can_be_put_aside() {
    let set = set(&[("a", "name : a enable : false --- x = raed(y) ;")]).unwrap();
    assert!(set.is_empty());
}
