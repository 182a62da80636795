//! The class of a statement, from its text and the catalog.

use super::Reason;
use super::catalog::{Attribute, Catalog, Function, Relation};
use super::keys::{Family, KeyColumn, KeyDependency};
use super::queries;
use super::shape::{Form, KeyTerm, Shape};
use super::types::Cast;
use super::uses::{ColumnUse, Use, Uses};

/// Which changes can change the answers to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// A change of a row touches the answers for the row's old and new key.
    Key(KeyDependency),
    /// A change of any row of one of these tables, which are sorted, touches all answers.
    Table {
        relations: Vec<u32>,
        /// Why the statement has no key.
        reason: Reason,
    },
    /// No change feed tells when an answer changes.
    None { reason: Reason },
}

/// Decides on a statement; the catalog was asked with its names.
pub(crate) fn classify(shape: &Shape, catalog: &Catalog) -> Dependency {
    decide(shape, catalog).unwrap_or_else(|reason| Dependency::None { reason })
}

fn decide(shape: &Shape, catalog: &Catalog) -> Result<Dependency, Reason> {
    if let Form::Refused(reason) = &shape.form {
        return Err(reason.clone());
    }
    let uses = &shape.uses;
    if !catalog.has_standard_strings {
        return Err("is run with standard_conforming_strings = off".into());
    }
    if !catalog.is_catalog_first {
        return Err("is run with a search_path that does not begin with pg_catalog".into());
    }
    let relations = Relations::of(uses, catalog)?;
    for relation in relations.all() {
        check_relation(relation)?;
    }
    check_members(uses, catalog)?;
    let is_aggregate = check_functions(uses, catalog)?;
    check_operators(uses, catalog, &relations)?;
    for column in &uses.columns {
        relations.check_column(uses, column)?;
    }
    for relation in relations.all() {
        check_published(relation, uses, catalog)?;
    }
    let mut oids: Vec<u32> = relations.all().map(|relation| relation.oid).collect();
    oids.sort_unstable();
    oids.dedup();
    if oids.is_empty() {
        return Err("reads no table".into());
    }
    let by_table = |reason| Dependency::Table {
        relations: oids,
        reason,
    };
    let (terms, is_arbitrary) = match &shape.form {
        Form::Key {
            terms,
            is_arbitrary,
        } => (terms, *is_arbitrary),
        Form::Table(reason) => return Ok(by_table(reason.clone())),
        Form::Refused(reason) => return Err(reason.clone()),
    };
    let relation = relations.all().next().expect("a key is one of a table");
    let key = match is_aggregate {
        true => Err("combines rows".into()),
        false => key_of(terms, relation, catalog),
    };
    match key {
        Ok(key) if !is_arbitrary || key.is_unique => Ok(Dependency::Key(key)),
        _ if is_arbitrary => Err(queries::ARBITRARY),
        Ok(_) => unreachable!("a key without a limit was accepted"),
        Err(reason) => Ok(by_table(reason)),
    }
}

/// The tables of a statement.
struct Relations<'a> {
    /// By the positions in the shape; `None` for a common table expression.
    found: Vec<Option<&'a Relation>>,
}

impl<'a> Relations<'a> {
    fn of(uses: &Uses, catalog: &'a Catalog) -> Result<Self, Reason> {
        let mut found = Vec::new();
        for name in &uses.relations {
            let relation = catalog.relation(&name.quoted());
            // A table with the name of a common table expression counts as read: that costs
            // invalidations only, and spares following the scopes of names.
            let may_be_cte = name.0.len() == 1 && uses.ctes.iter().any(|cte| cte == name.last());
            if relation.is_none() && !may_be_cte {
                return Err(format!("reads {}, which does not exist", name.quoted()).into());
            }
            found.push(relation);
        }
        for &renamed in &uses.renamed {
            if found[renamed].is_some() {
                return Err("gives other names to the columns of a table".into());
            }
        }
        Ok(Self { found })
    }

    fn all(&self) -> impl Iterator<Item = &'a Relation> {
        self.found.iter().copied().flatten()
    }

    /// Checks that a name is that of a column, and that its type is one that the use allows.
    fn check_column(&self, uses: &Uses, column: &ColumnUse) -> Result<(), Reason> {
        let usage = match uses.is_nested {
            // Outer queries may compare what an inner one only shows.
            true => Use::Operand,
            false => column.usage,
        };
        let relations: Vec<&Relation> = match &column.table {
            None => self.all().collect(),
            Some(table) => self.named(uses, table)?,
        };
        // The columns of a query are those of the tables, or have names of their own.
        let is_of_query = relations.is_empty();
        let relations = match is_of_query {
            true => self.all().collect(),
            false => relations,
        };
        let Some(name) = &column.column else {
            let mut all = relations.iter().flat_map(|relation| &relation.attributes);
            return all.try_for_each(|attribute| check_type(attribute, usage));
        };
        let mut is_found = false;
        for relation in &relations {
            let attribute = relation.attribute(name);
            if let Some(attribute) = attribute {
                is_found = true;
                check_type(attribute, usage)?;
            } else if column.table.is_some() && !is_of_query {
                // `t.f` is also a call of the function `f` with a row of `t`.
                return Err(format!("uses {name}, which is not a column of its table").into());
            }
        }
        if is_found {
            return Ok(());
        }
        let is_row = uses.sources.iter().any(|source| source.name == *name);
        if is_row || !uses.aliases.contains(name) {
            return Err(format!("uses {name}, which is not a column of its tables").into());
        }
        Ok(())
    }

    /// The tables that a qualifier may name; none if it names a query.
    fn named(&self, uses: &Uses, table: &str) -> Result<Vec<&'a Relation>, Reason> {
        let sources = uses.sources.iter().filter(|source| source.name == table);
        let mut is_known = false;
        let mut relations = Vec::new();
        for source in sources {
            is_known = true;
            relations.extend(source.relation.and_then(|position| self.found[position]));
        }
        if !is_known {
            return Err(format!("uses {table}, which is not among its tables").into());
        }
        Ok(relations)
    }
}

impl Relation {
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }
}

fn check_type(attribute: &Attribute, usage: Use) -> Result<(), Reason> {
    let Attribute {
        name, type_name, ..
    } = attribute;
    if usage == Use::Operand && !attribute.is_plain {
        return Err(format!(
            "computes or compares with {name}, and values of the type {type_name} may depend on \
             the time or on settings"
        )
        .into());
    }
    if !attribute.is_shown {
        return Err(format!(
            "reads {name}, whose type {type_name} may depend on more than the table"
        )
        .into());
    }
    Ok(())
}

/// Checks a relation apart from the publication.
fn check_relation(relation: &Relation) -> Result<(), Reason> {
    let name = &relation.name;
    let what = match relation.kind {
        'r' if relation.is_system => "a table of the system",
        'r' if relation.is_partition => "a partition",
        'r' if relation.has_children => "a table that others inherit from",
        'r' if relation.is_row_secured => "a table with row security",
        'r' => match relation.persistence {
            'p' => return Ok(()),
            'u' => "an unlogged table",
            _ => "a temporary table",
        },
        'p' => "a partitioned table",
        'v' => "a view",
        'm' => "a materialized view",
        'f' => "a foreign table",
        _ => "not a table",
    };
    Err(format!("reads {name}, which is {what}").into())
}

fn check_published(relation: &Relation, uses: &Uses, catalog: &Catalog) -> Result<(), Reason> {
    let name = &relation.name;
    let Some(published) = &relation.published else {
        return Err(format!("reads {name}, which is not in the publication").into());
    };
    if !catalog.publishes_all {
        return Err("reads a publication that leaves out kinds of changes".into());
    }
    if published.rowfilter.is_some() {
        return Err(format!("reads {name}, of which only some rows are published").into());
    }
    if let Some(columns) = &published.attnames {
        let uses_all = uses.columns.iter().any(|used| used.column.is_none());
        let is_used = |attribute: &Attribute| {
            let name = Some(attribute.name.as_str());
            uses_all || uses.columns.iter().any(|it| it.column.as_deref() == name)
        };
        // Generated columns change only with others.
        let missing = relation.attributes.iter().find(|attribute| {
            !attribute.is_generated && is_used(attribute) && !columns.contains(&attribute.name)
        });
        if let Some(missing) = missing {
            let column = &missing.name;
            return Err(format!("reads {column} of {name}, which is not published").into());
        }
    }
    if relation.identity != 'f' && relation.identity_columns().is_none() {
        return Err(format!("reads {name}, which has no replica identity").into());
    }
    Ok(())
}

impl Relation {
    /// The columns of the replica identity; `None` if there is none, or it is the whole row.
    pub(super) fn identity_columns(&self) -> Option<&[i16]> {
        let key = self.unique_keys.iter().find(|key| match self.identity {
            'd' => key.is_primary,
            'i' => key.is_identity,
            _ => false,
        });
        key.map(|key| key.columns.as_slice())
    }
}

/// Refuses `q.f` for a query `q` if there is a function `f`: a name that is not a column is a call of it.
fn check_members(uses: &Uses, catalog: &Catalog) -> Result<(), Reason> {
    let members = uses.members();
    let function = catalog
        .functions
        .iter()
        .find(|function| !function.is_built_in && members.contains(&function.name.as_str()));
    match function {
        Some(Function { name, .. }) => {
            Err(format!("uses {name}, which may be a function that is not built in").into())
        }
        None => Ok(()),
    }
}

/// Checks the functions; whether one of them is an aggregate or a window function.
fn check_functions(uses: &Uses, catalog: &Catalog) -> Result<bool, Reason> {
    let mut is_aggregate = false;
    for call in &uses.calls {
        let name = &call.name;
        let mut is_found = false;
        let mut takes_other = false;
        let functions = catalog.functions.iter();
        for function in functions.filter(|function| function.name == *name) {
            // Whether it is called depends on the types of the arguments, which are not known here.
            if !function.is_built_in {
                return Err(format!("uses the function {name}(), which is not built in").into());
            }
            if !function.takes(call.argument_count) {
                continue;
            }
            is_found = true;
            if function.volatility != 'i' {
                return Err(format!("uses the function {name}(), which is not immutable").into());
            }
            if function.returns_set {
                return Err(format!("uses the function {name}(), which returns rows").into());
            }
            if !function.takes_other && !function.returns_plain {
                return Err(format!(
                    "uses the function {name}(), whose result may depend on settings"
                )
                .into());
            }
            takes_other |= function.takes_other;
            is_aggregate |= function.kind != 'f';
        }
        if !is_found {
            return Err(format!("uses the unknown function {name}()").into());
        }
        if takes_other && call.has_untyped {
            return Err(format!(
                "calls {name}() with a literal or a parameter, whose type is not certain"
            )
            .into());
        }
    }
    Ok(is_aggregate)
}

impl Function {
    fn takes(&self, argument_count: usize) -> bool {
        let count = i32::try_from(argument_count).unwrap_or(i32::MAX);
        self.count_min <= count && self.count_max.is_none_or(|max| count <= max)
    }
}

/// Checks that the operators are those that are built in.
fn check_operators(
    uses: &Uses,
    catalog: &Catalog,
    relations: &Relations<'_>,
) -> Result<(), Reason> {
    for operator in &catalog.operators {
        let name = &operator.name;
        if !uses.operators.contains(name) {
            continue;
        }
        // One with operands of other types is only used with a column of such a type: no other
        // expression that is allowed has one.
        let takes = |type_oid: u32| type_oid == operator.left || type_oid == operator.right;
        let has_operand = relations
            .all()
            .flat_map(|relation| &relation.attributes)
            .any(|attribute| takes(attribute.r#type) || attribute.base.is_none_or(takes));
        if operator.is_for_built_in || has_operand {
            return Err(format!(
                "uses the operator {name}, which is not built in or not immutable"
            )
            .into());
        }
    }
    // `textanycat` writes its operand by the settings of the session.
    if uses.operators.iter().any(|name| name == "||") {
        let is_written_by_settings =
            |attribute: &&Attribute| matches!(attribute.base, Some(17 | 700 | 701));
        let written = relations
            .all()
            .flat_map(|relation| &relation.attributes)
            .filter(is_written_by_settings)
            .find(|attribute| uses.may_compute_with(&attribute.name));
        if let Some(attribute) = written {
            let name = &attribute.name;
            return Err(format!("may write {name} as text, which depends on settings").into());
        }
    }
    Ok(())
}

impl Uses {
    /// Whether a column with this name may be an operand.
    fn may_compute_with(&self, name: &str) -> bool {
        self.columns.iter().any(|used| {
            let is_operand = self.is_nested || used.usage == Use::Operand;
            is_operand && used.column.as_deref().is_none_or(|column| column == name)
        })
    }
}

/// The key of a statement, or why it has none.
fn key_of(
    terms: &[KeyTerm],
    relation: &Relation,
    catalog: &Catalog,
) -> Result<KeyDependency, Reason> {
    let mut columns: Vec<KeyColumn> = Vec::new();
    for term in terms {
        let name = &term.column.column;
        let attribute = relation
            .attribute(name)
            .ok_or_else(|| format!("uses {name}, which is not a column of its table"))?;
        let family = family_of(attribute, catalog)?;
        if term.cast.is_some_and(|cast| cast != Cast::Key(family)) {
            return Err(format!("compares {name} with a parameter of another type").into());
        }
        if let Some(other) = columns.iter().find(|it| it.parameter == term.parameter)
            && other.family != family
        {
            return Err(format!("compares {name} with a parameter of another type").into());
        }
        // Of two conditions for a column, one is enough: the rows that satisfy both are among those
        // that satisfy it.
        if columns.iter().any(|it| it.number == attribute.number) {
            continue;
        }
        columns.push(KeyColumn {
            name: attribute.name.as_str().into(),
            number: attribute.number,
            type_oid: attribute.r#type,
            family,
            parameter: term.parameter,
        });
    }
    columns.sort_unstable_by_key(|column| column.number);
    let has = |number: &i16| columns.iter().any(|column| column.number == *number);
    if relation.identity != 'f' {
        let identity = relation.identity_columns().unwrap_or_default();
        let missing = columns.iter().find(|it| !identity.contains(&it.number));
        if let Some(missing) = missing {
            let name = &missing.name;
            return Err(format!("has {name} in its key, but the replica identity has not").into());
        }
    }
    let is_unique = (relation.unique_keys.iter()).any(|key| key.columns.iter().all(has));
    Ok(KeyDependency {
        relation: relation.oid,
        columns,
        is_unique,
        is_identity_full: relation.identity == 'f',
    })
}

fn family_of(attribute: &Attribute, catalog: &Catalog) -> Result<Family, Reason> {
    let Attribute {
        name, type_name, ..
    } = attribute;
    let Some(family) = Family::of(attribute.r#type) else {
        return Err(format!("has {name} of the type {type_name} in its key").into());
    };
    if attribute.is_generated {
        return Err(format!("has the generated column {name} in its key").into());
    }
    if family == Family::Text && !catalog.is_utf8 {
        return Err("has text in its key, and the database is not in UTF-8".into());
    }
    if !attribute.is_deterministic {
        return Err(format!("has {name} in its key, whose collation has equal texts").into());
    }
    Ok(family)
}
