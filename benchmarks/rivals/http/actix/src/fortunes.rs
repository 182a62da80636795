//! The page of fortunes: read, one added, sorted and escaped for each request.

use actix_web::{HttpResponse, Responder, get, web};

use crate::database::Database;

#[get("/fortunes")]
pub async fn fortunes(database: web::Data<Database>) -> Result<impl Responder, actix_web::Error> {
    let connection = database.connection()?;
    let rows = connection.query(&connection.fortunes, &[]).await?;
    let mut fortunes: Vec<(i32, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    fortunes.push((0, "Additional fortune added at request time."));
    fortunes.sort_unstable_by_key(|(_, message)| *message);
    let mut page = String::with_capacity(32 << 10);
    page.push_str(
        "<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>\
         <tr><th>id</th><th>message</th></tr>",
    );
    for (id, message) in fortunes {
        page.push_str("<tr><td>");
        page.push_str(&id.to_string());
        page.push_str("</td><td>");
        escape(message, &mut page);
        page.push_str("</td></tr>");
    }
    page.push_str("</table></body></html>");
    Ok(HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .body(page))
}

fn escape(mut text: &str, page: &mut String) {
    while let Some(at) = text.find(['&', '<', '>', '"', '\'']) {
        page.push_str(&text[..at]);
        page.push_str(match text.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        text = &text[at + 1..];
    }
    page.push_str(text);
}
