//! Syslog in its three forms, including the examples of RFC 5424 and RFC 3164.

use super::support::check;

fn check_line(line: &str, expected: &str) {
    check("syslog", &[("year", "2026")], line, expected);
}

const AUTH_CRIT: &str = "priority:int=34 facility:text=auth severity:text=crit";

#[test]
fn examples_of_rfc_5424() {
    // 6.5, example 1; the message begins with a byte order mark.
    check_line(
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed for lonvick on /dev/pts/8",
        &format!(
            "1 {AUTH_CRIT} time:time=2003-10-11 22:14:15.003+00:00 host:text=mymachine.example.com \
             app:text=su msgid:text=ID47 msg:text='su root' failed for lonvick on /dev/pts/8"
        ),
    );
    // Example 2.
    check_line(
        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
        "1 priority:int=165 facility:text=local4 severity:text=notice \
         time:time=2003-08-24 05:14:15.000003-07:00 host:text=192.0.2.1 app:text=myproc \
         pid:text=8710 msg:text=%% It's time to make the do-nuts.",
    );
    // Example 3.
    check_line(
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"] \u{feff}An application event log entry...",
        "1 priority:int=165 facility:text=local4 severity:text=notice \
         time:time=2003-10-11 22:14:15.003+00:00 host:text=mymachine.example.com app:text=evntslog \
         msgid:text=ID47 data:object={\"exampleSDID@32473\":{\"eventID\":\"1011\",\
         \"eventSource\":\"Application\",\"iut\":\"3\"}} msg:text=An application event log entry...",
    );
    // Example 4: two elements, no message.
    check_line(
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"][examplePriority@32473 class=\"high\"]",
        "1 priority:int=165 facility:text=local4 severity:text=notice \
         time:time=2003-10-11 22:14:15.003+00:00 host:text=mymachine.example.com app:text=evntslog \
         msgid:text=ID47 data:object={\"examplePriority@32473\":{\"class\":\"high\"},\
         \"exampleSDID@32473\":{\"eventID\":\"1011\",\"eventSource\":\"Application\",\"iut\":\"3\"}}",
    );
    // 6.2.3.1: times near a leap second, and nanoseconds; the fifth example is too precise for the
    // RFC.
    for (time, expected) in [
        ("1985-04-12T23:20:50.52Z", "1985-04-12 23:20:50.52+00:00"),
        (
            "1985-04-12T19:20:50.52-04:00",
            "1985-04-12 19:20:50.52-04:00",
        ),
        (
            "2003-08-24T05:14:15.000003-07:00",
            "2003-08-24 05:14:15.000003-07:00",
        ),
    ] {
        check_line(
            &format!("<34>1 {time} - - - - -"),
            &format!("1 {AUTH_CRIT} time:time={expected}"),
        );
    }
}

#[test]
fn structured_data_of_rfc_5424() {
    let line = |data: &str| format!("<34>1 - - - - - {data} m");
    for (data, expected) in [
        ("-", ""),
        ("[a]", " data:object={\"a\":{}}"),
        (
            r#"[a b="1" c="\"\\\] \n"]"#,
            r#" data:object={"a":{"b":"1","c":"\"\\] \\n"}}"#,
        ),
        (
            r#"[o ip="192.0.2.1" ip="192.0.2.129" ip="x"]"#,
            r#" data:object={"o":{"ip":["192.0.2.1","192.0.2.129","x"]}}"#,
        ),
        (r#"[a b="é ü"]"#, r#" data:object={"a":{"b":"é ü"}}"#),
    ] {
        check_line(&line(data), &format!("1 {AUTH_CRIT}{expected} msg:text=m"));
    }
    for (data, reason) in [
        ("x", "missing structured data in the header"),
        ("[]", "a name in the structured data has 0 bytes"),
        ("[a b]", "missing `=\"` in the structured data"),
        (
            "[a b=\"]\"]",
            "a `]` without backslash in a value of the structured data",
        ),
        (
            "[a b=\"1",
            "a value in the structured data has no closing quote",
        ),
        (
            "[a b=\"1\"x]",
            "missing `]` after an element of the structured data",
        ),
        ("[a][a]", "two elements `a` in the structured data"),
        ("[a]x", "missing blank after the structured data"),
        (
            "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]",
            "a name in the structured data has 33 bytes",
        ),
        // 6.3.5: the blank between two elements ends the data.
    ] {
        check_line(&line(data), &format!("1! {reason}"));
    }
    check_line(
        &line("[a] [b]"),
        &format!("1 {AUTH_CRIT} data:object={{\"a\":{{}}}} msg:text=[b] m"),
    );
}

#[test]
fn what_rfc_3164_describes() {
    let october = "time:time=2026-10-11 22:14:15";
    for (line, expected) in [
        // 5.4, examples 1 and 2.
        (
            "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
            format!("{AUTH_CRIT} {october} host:text=mymachine app:text=su msg:text='su root' failed for lonvick on /dev/pts/8"),
        ),
        (
            "<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!",
            "priority:int=13 facility:text=user severity:text=notice time:time=2026-02-05 17:32:18 host:text=10.0.0.99 msg:text=Use the BFG!".into(),
        ),
        // 5.4, example 3 has a year and a zone that the format does not have: all of it is the
        // message.
        (
            "<0>1990 Oct 22 10:52:01 TZ-6 scapegoat.dmz.example.org 10.1.2.3 sched[0]: That's All Folks!",
            "priority:int=0 facility:text=kern severity:text=emerg msg:text=1990 Oct 22 10:52:01 TZ-6 scapegoat.dmz.example.org 10.1.2.3 sched[0]: That's All Folks!".into(),
        ),
        // What daemons, routers and files write.
        (
            "<34>Oct 11 22:14:15 su[77]: x",
            format!("{AUTH_CRIT} {october} app:text=su pid:text=77 msg:text=x"),
        ),
        (
            "<34>su: x",
            format!("{AUTH_CRIT} app:text=su msg:text=x"),
        ),
        (
            "Oct 11 22:14:15 web-7 postfix/smtpd[4711]: connect from unknown[10.0.0.1]",
            format!("{october} host:text=web-7 app:text=postfix/smtpd pid:text=4711 msg:text=connect from unknown[10.0.0.1]"),
        ),
        (
            "<34>Oct 11 22:14:15: %ASA-6-302013: Built",
            format!("{AUTH_CRIT} {october} app:text=%ASA-6-302013 msg:text=Built"),
        ),
        (
            "2026-03-01T10:15:02.123456+01:00 web-7 kernel: [1.2] up",
            "time:time=2026-03-01 10:15:02.123456+01:00 host:text=web-7 app:text=kernel msg:text=[1.2] up".into(),
        ),
        (
            "<34>Oct 11 22:14:15 fe80::1 no tag here",
            format!("{AUTH_CRIT} {october} host:text=fe80::1 msg:text=no tag here"),
        ),
        ("<34>", AUTH_CRIT.into()),
        ("Oct 11 22:14:15", october.into()),
    ] {
        check_line(line, &format!("1 {expected}"));
    }
}

#[test]
fn broken_lines_say_why() {
    for (line, reason) in [
        ("hello", "neither a priority nor a time at the beginning"),
        (
            "Oct 32 22:14:15 h a: x",
            "neither a priority nor a time at the beginning",
        ),
        ("<34", "missing `>` after the priority"),
        ("<>x", "the priority is not a number from 0 to 191"),
        ("<192>x", "the priority is not a number from 0 to 191"),
        ("<034>x", "the priority is not a number from 0 to 191"),
        ("<+1>x", "the priority is not a number from 0 to 191"),
        ("<34>1 ", "missing time in the header"),
        ("<34>1 - h", "missing host in the header"),
        ("<34>1 -  a - - -", "missing host in the header"),
        (
            "<34>1 yesterday h a p m -",
            "not an RFC 3339 time: `yesterday`",
        ),
        (
            "<34>1 2003-10-11T22:14:15 h a p m -",
            "not an RFC 3339 time: `2003-10-11T22:14:15`",
        ),
        ("<34>1 - h a p m", "missing msgid in the header"),
        ("<34>1 - h a p m ", "missing structured data in the header"),
    ] {
        check_line(line, &format!("1! {reason}"));
    }
}
