"""Rules of auth_to_local with names and their short names; None if Hadoop refuses a name."""

from __future__ import annotations

from typing import Final

REALM: Final = "TEST.REALM"

CASES: Final[tuple[tuple[str, dict[str, str | None]], ...]] = (
    ("", {"bob@TEST.REALM": "bob", "nn/h1@TEST.REALM": "nn", "bob@OTHER": None, "plain": "plain"}),
    (
        "RULE:[2:$1@$0]([ns]n@TEST.REALM)s/.*/hdfs/\nRULE:[1:$1@$0](.*@OTHER)s/@.*//\nDEFAULT",
        {
            "nn/h1@TEST.REALM": "hdfs",
            "sn/h1@TEST.REALM": "hdfs",
            "jn/h1@TEST.REALM": "jn",
            "bob@OTHER": "bob",
            "carol@TEST.REALM": "carol",
            "dn/h@THIRD": None,
        },
    ),
    ("RULE:[1:$1](Ab.*)s/b/x/g/L", {"Abbey@TEST.REALM": "axxey", "zoe@TEST.REALM": None}),
    ("RULE:[1:$1@$0]", {"a@TEST.REALM": None}),
    ("RULE:[1:$1]s/.*/x/g", {"ab@R": "xx"}),
    ("RULE:[1:$1]s/b*/-/g", {"abc@R": "-a--c-"}),
    ("RULE:[1:$1]s/(a)(b)?/$2$1/", {"ab@R": "ba", "ac@R": "ac"}),
    (r"RULE:[1:$1]s/a/\$x\\/", {"ab@R": "$x\\b"}),
    ("RULE:[2:$2-$1-$0]DEFAULT", {"nn/h@R": "h-nn-R", "a@TEST.REALM": "a"}),
    ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", {"bob/admin@TEST.REALM": "bob", "bob/other@TEST.REALM": None}),
    ("DEFAULT/L", {"Bob@TEST.REALM": "Bob"}),
    ("RULE:[1:$1]/L", {"Bob@OTHER": "bob"}),
    (r"RULE:[1:$1](\w+)s/\d++//g", {"a1b22@R": "ab", "ä@R": None}),
)
