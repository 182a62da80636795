//! The tables, and the questions to them.

use cartel_gen::{pg_instance, query_group};
use cartel_pg::{Jsonb, PgTable};

#[derive(PgTable, Debug, Clone)]
#[table_name("items")]
pub struct Item {
    #[pk]
    pub id: i32,
    pub name: String,
    pub category: String,
    pub price: i32,
    pub quantity: i32,
    pub active: bool,
    pub tags: Jsonb,
    pub rating_score: i32,
    pub rating_count: i32,
}

#[query_group]
impl Item {
    pub fn range(min: i32, max: i32, count: i64) -> Vec<Item> {
        Item::filter(|item| item.price >= min && item.price <= max)
            .limit(count)
            .all()
    }

    pub fn by_id(id: i32) -> Option<Item> {
        Item::filter(|item| item.id == id).first()
    }

    pub fn page(category: String, count: i64, offset: i64) -> Vec<Item> {
        Item::filter(|item| item.category == category)
            .order_by(|item| item.id)
            .limit(count)
            .offset(offset)
            .all()
    }

    pub fn change(id: i32, name: String, price: i32, quantity: i32) -> Option<Item> {
        Item::filter(|item| item.id == id)
            .update(|item| {
                item.name = name;
                item.price = price;
                item.quantity = quantity;
            })
            .returning_first()
    }

    pub fn create(
        id: i32,
        name: String,
        category: String,
        price: i32,
        quantity: i32,
        active: bool,
        tags: Jsonb,
        rating: i32,
        new_name: String,
        new_category: String,
    ) {
        Item::insert(|item| {
            item.id = id;
            item.name = name;
            item.category = category;
            item.price = price;
            item.quantity = quantity;
            item.active = active;
            item.tags = tags;
            item.rating_score = rating;
            item.rating_count = rating;
        })
        .on_conflict(|item| item.id)
        .do_update(|item| {
            item.name = new_name;
            item.category = new_category;
            item.price = price;
            item.quantity = quantity;
        })
    }
}

#[derive(PgTable, Debug)]
#[table_name("fortune")]
pub struct Fortune {
    #[pk]
    pub id: i32,
    pub message: String,
}

#[query_group]
impl Fortune {
    pub fn everything(least: i32) -> Vec<Fortune> {
        Fortune::filter(|fortune| fortune.id > least).all()
    }
}

pg_instance! { Db: Item, Fortune }
