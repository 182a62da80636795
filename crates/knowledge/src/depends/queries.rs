//! Queries: everything around expressions.
//!
//! Each type of the parser is taken apart with all of its fields, so that a field which a later
//! version adds does not compile until it is decided on.

use sqlparser::ast::{
    Cte, Distinct, Expr, Fetch, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator,
    LimitClause, Offset, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, OrderBySort, Query,
    Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier,
    TableAlias, TableFactor, TableWithJoins, Values, WildcardAdditionalOptions, With,
};

use super::Reason;
use super::names;
use super::uses::{ColumnUse, Node, RelationName, Source, Use, Uses, bare};

/// The reason against `limit` without an order.
pub(super) const ARBITRARY: Reason =
    Reason::Borrowed("limits the rows without an order, so any of them may be the answer");

/// Whether a query returns some of its rows without an order.
pub(super) fn is_arbitrary(query: &Query) -> bool {
    let is_limited = query.limit_clause.is_some() || query.fetch.is_some();
    let is_first_of_group = match &*query.body {
        SetExpr::Select(select) => matches!(select.distinct, Some(Distinct::On(_))),
        _ => false,
    };
    query.order_by.is_none() && (is_limited || is_first_of_group)
}

/// Whether rows are combined, so that an answer's row does not stand for one of the table.
pub(super) fn is_grouped(select: &Select) -> bool {
    let has_no_group = matches!(
        &select.group_by,
        GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty()
    );
    !has_no_group
        || select.having.is_some()
        || matches!(select.distinct, Some(Distinct::On(_)))
        || !select.named_window.is_empty()
}

/// What PostgreSQL does not have, or what is not supported.
fn other() -> Reason {
    "has a clause that is not supported".into()
}

/// `Ok` if a clause is absent.
fn absent(is_absent: bool) -> Result<(), Reason> {
    if is_absent { Ok(()) } else { Err(other()) }
}

impl Uses {
    /// Reads nodes and all below them. The list of nodes replaces recursion, because operators may
    /// be nested deeply. Returns whether there were parameters.
    pub(super) fn read_all(&mut self, mut nodes: Vec<Node<'_>>) -> Result<bool, Reason> {
        let mut has_parameters = false;
        while let Some(node) = nodes.pop() {
            has_parameters |= self.read_node(node, &mut nodes)?;
        }
        Ok(has_parameters)
    }

    fn read_node<'a>(&mut self, node: Node<'a>, nodes: &mut Vec<Node<'a>>) -> Result<bool, Reason> {
        match node {
            Node::Expr(expr, usage) => return self.read_expr(expr, usage, nodes),
            Node::Query(query) => {
                if is_arbitrary(query) {
                    return Err(ARBITRARY);
                }
                self.read_around_body(query, nodes)?;
                nodes.push(Node::Set(&query.body));
            }
            Node::Set(set) => self.read_set(set, nodes)?,
            Node::From(factor) => self.read_from(factor, nodes)?,
        }
        Ok(false)
    }

    /// All clauses of a query that are around its select.
    pub(super) fn read_around_body<'a>(
        &mut self,
        query: &'a Query,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        let Query {
            with,
            body: _,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if !locks.is_empty() {
            return Err("locks rows".into());
        }
        absent(for_clause.is_none() && settings.is_none() && format_clause.is_none())?;
        absent(pipe_operators.is_empty())?;
        if let Some(with) = with {
            self.read_with(with, nodes)?;
        }
        if let Some(OrderBy { kind, interpolate }) = order_by {
            absent(interpolate.is_none())?;
            let OrderByKind::Expressions(exprs) = kind else {
                return Err(other());
            };
            read_order(exprs, nodes)?;
        }
        match limit_clause {
            None => {}
            Some(LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            }) => {
                absent(limit_by.is_empty())?;
                let offset = offset.as_ref().map(|Offset { value, rows: _ }| value);
                for count in limit.iter().chain(offset) {
                    push_count(count, nodes)?;
                }
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => return Err(other()),
        }
        if let Some(Fetch {
            with_ties,
            percent,
            quantity,
        }) = fetch
        {
            absent(!with_ties && !percent)?;
            if let Some(count) = quantity {
                push_count(count, nodes)?;
            }
        }
        Ok(())
    }

    fn read_with<'a>(&mut self, with: &'a With, nodes: &mut Vec<Node<'a>>) -> Result<(), Reason> {
        let With {
            with_token: _,
            recursive: _,
            cte_tables,
        } = with;
        self.is_nested = true;
        for cte in cte_tables {
            let Cte {
                alias,
                query,
                from,
                materialized: _,
                closing_paren_token: _,
            } = cte;
            absent(from.is_none())?;
            let name = self.read_alias(alias)?;
            self.ctes.push(name);
            nodes.push(Node::Query(query));
        }
        Ok(())
    }

    /// The name of an alias; the names that it gives to columns are recorded.
    fn read_alias(&mut self, alias: &TableAlias) -> Result<String, Reason> {
        let TableAlias {
            explicit: _,
            name,
            columns,
            at,
        } = alias;
        absent(at.is_none())?;
        for column in columns {
            absent(column.data_type.is_none())?;
            self.aliases.push(names::folded(&column.name)?);
        }
        names::folded(name)
    }

    fn read_set<'a>(&mut self, set: &'a SetExpr, nodes: &mut Vec<Node<'a>>) -> Result<(), Reason> {
        match set {
            SetExpr::Select(select) => {
                if let Some(condition) = &select.selection {
                    nodes.push(Node::Expr(condition, Use::Operand));
                }
                self.read_around_condition(select, nodes)
            }
            SetExpr::Query(query) => {
                self.is_nested = true;
                nodes.push(Node::Query(query));
                Ok(())
            }
            SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier,
                right,
            } => {
                self.is_nested = true;
                absent(matches!(
                    set_quantifier,
                    SetQuantifier::None | SetQuantifier::All | SetQuantifier::Distinct
                ))?;
                nodes.extend([Node::Set(left), Node::Set(right)]);
                Ok(())
            }
            SetExpr::Values(values) => {
                let Values {
                    explicit_row,
                    value_keyword,
                    rows,
                } = values;
                absent(!explicit_row && !value_keyword)?;
                self.is_nested = true;
                let cells = rows.iter().flat_map(|row| row.content.iter());
                nodes.extend(cells.map(|cell| Node::Expr(cell, Use::Operand)));
                Ok(())
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err("changes data".into())
            }
            SetExpr::Table(_) => Err(other()),
        }
    }

    /// All clauses of a select except its condition.
    pub(super) fn read_around_condition<'a>(
        &mut self,
        select: &'a Select,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection: _,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        absent(optimizer_hints.is_empty() && select_modifiers.is_none() && top.is_none())?;
        absent(exclude.is_none() && into.is_none() && lateral_views.is_empty())?;
        absent(prewhere.is_none() && connect_by.is_empty() && cluster_by.is_empty())?;
        absent(distribute_by.is_empty() && sort_by.is_empty() && qualify.is_none())?;
        absent(value_table_mode.is_none() && matches!(flavor, SelectFlavor::Standard))?;
        if !named_window.is_empty() {
            return Err("names a window".into());
        }
        if let Some(Distinct::On(exprs)) = distinct {
            nodes.extend(exprs.iter().map(|expr| Node::Expr(expr, Use::Shown)));
        }
        match group_by {
            GroupByExpr::Expressions(exprs, modifiers) if modifiers.is_empty() => {
                nodes.extend(exprs.iter().map(|expr| Node::Expr(expr, Use::Shown)));
            }
            _ => return Err(other()),
        }
        nodes.extend(having.iter().map(|expr| Node::Expr(expr, Use::Operand)));
        for TableWithJoins { relation, joins } in from {
            self.read_joins(relation, joins, nodes)?;
        }
        projection
            .iter()
            .try_for_each(|item| self.read_item(item, nodes))
    }

    fn read_item<'a>(
        &mut self,
        item: &'a SelectItem,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                if let Expr::Function(call) = bare(expr)
                    && let Some(name) = names::parts(&call.name)?.last()
                {
                    self.aliases.push(names::folded(name)?);
                }
                nodes.push(Node::Expr(expr, Use::Shown));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                self.aliases.push(names::folded(alias)?);
                nodes.push(Node::Expr(expr, Use::Shown));
            }
            SelectItem::Wildcard(options) => {
                check_wildcard(options)?;
                self.use_all(None);
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                check_wildcard(options)?;
                let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                    return Err("selects the members of an expression".into());
                };
                let table = names::relation(name)?.pop();
                self.use_all(table);
            }
            SelectItem::ExprWithAliases { .. } => return Err(other()),
        }
        Ok(())
    }

    fn use_all(&mut self, table: Option<String>) {
        self.columns.push(ColumnUse {
            column: None,
            table,
            usage: Use::Shown,
        });
    }

    fn read_from<'a>(
        &mut self,
        factor: &'a TableFactor,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if args.is_some() || *with_ordinality {
                    return Err("reads from a function".into());
                }
                if sample.is_some() {
                    return Err("reads a random sample of a table".into());
                }
                absent(with_hints.is_empty() && version.is_none() && partitions.is_empty())?;
                absent(json_path.is_none() && index_hints.is_empty())?;
                let name = RelationName(names::relation(name)?);
                self.read_table(name, alias.as_ref())
            }
            TableFactor::Derived {
                lateral: _,
                subquery,
                alias,
                sample,
            } => {
                absent(sample.is_none())?;
                self.is_nested = true;
                if let Some(alias) = alias {
                    let name = self.read_alias(alias)?;
                    self.sources.push(Source {
                        name,
                        relation: None,
                    });
                }
                nodes.push(Node::Query(subquery));
                Ok(())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                absent(alias.is_none())?;
                let TableWithJoins { relation, joins } = &**table_with_joins;
                self.read_joins(relation, joins, nodes)
            }
            _ => Err("reads from a function".into()),
        }
    }

    fn read_table(&mut self, name: RelationName, alias: Option<&TableAlias>) -> Result<(), Reason> {
        let source = match alias {
            None => name.last().to_owned(),
            Some(alias) => {
                let may_be_cte = name.0.len() == 1;
                if !alias.columns.is_empty() && !may_be_cte {
                    return Err("gives other names to the columns of a table".into());
                }
                self.read_alias(alias)?
            }
        };
        let is_renamed = alias.is_some_and(|alias| !alias.columns.is_empty());
        let known = self.relations.iter().position(|known| *known == name);
        let relation = known.unwrap_or_else(|| {
            self.relations.push(name);
            self.relations.len() - 1
        });
        if is_renamed {
            self.renamed.push(relation);
        }
        self.sources.push(Source {
            name: source,
            relation: Some(relation),
        });
        Ok(())
    }

    fn read_joins<'a>(
        &mut self,
        first: &'a TableFactor,
        joins: &'a [Join],
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        nodes.push(Node::From(first));
        for join in joins {
            let Join {
                relation,
                global,
                join_operator,
            } = join;
            absent(!global)?;
            nodes.push(Node::From(relation));
            match join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint)
                | JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::CrossJoin(constraint) => self.read_constraint(constraint, nodes)?,
                _ => return Err(other()),
            }
        }
        Ok(())
    }

    fn read_constraint<'a>(
        &mut self,
        constraint: &'a JoinConstraint,
        nodes: &mut Vec<Node<'a>>,
    ) -> Result<(), Reason> {
        match constraint {
            JoinConstraint::None => {}
            JoinConstraint::On(condition) => nodes.push(Node::Expr(condition, Use::Operand)),
            JoinConstraint::Using(columns) => {
                self.operators.push("=".to_owned());
                for column in columns {
                    let idents: Vec<Ident> = names::parts(column)?.into_iter().cloned().collect();
                    self.use_column(&idents, Use::Operand)?;
                }
            }
            JoinConstraint::Natural => {
                return Err("joins by all columns of the same name".into());
            }
        }
        Ok(())
    }
}

/// The expressions of an `order by`.
pub(super) fn read_order<'a>(
    exprs: &'a [OrderByExpr],
    nodes: &mut Vec<Node<'a>>,
) -> Result<(), Reason> {
    for order in exprs {
        let OrderByExpr {
            expr,
            options:
                OrderByOptions {
                    sort,
                    nulls_first: _,
                },
            with_fill,
        } = order;
        absent(with_fill.is_none())?;
        absent(!matches!(sort, Some(OrderBySort::Using(_))))?;
        nodes.push(Node::Expr(expr, Use::Shown));
    }
    Ok(())
}

/// A number of rows: a literal or a parameter.
fn push_count<'a>(count: &'a Expr, nodes: &mut Vec<Node<'a>>) -> Result<(), Reason> {
    if !matches!(count, Expr::Value(_)) {
        return Err("computes a limit".into());
    }
    nodes.push(Node::Expr(count, Use::Shown));
    Ok(())
}

fn check_wildcard(options: &WildcardAdditionalOptions) -> Result<(), Reason> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    absent(opt_ilike.is_none() && opt_exclude.is_none() && opt_except.is_none())?;
    absent(opt_replace.is_none() && opt_rename.is_none() && opt_alias.is_none())
}
