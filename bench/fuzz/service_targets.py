"""Fuzz targets: what clients, mail servers, workers, providers and feeds send, and what operators type."""

from bench.fuzz import foreign_readers, readers, seeds, service_readers
from bench.fuzz.seeds import lines
from bench.fuzz.target import Target
from gatepost.digests.mail import DigestLink, read_link, sign_link
from gatepost.policy.layers import read_policy_file
from gatepost.policy.rules import shipped_policy
from gatepost.smtp.commands import SmtpLimits, parse_command
from gatepost.smtp.next_hop import parse_challenge
from gatepost.store.digests import DigestKey

_ID = "018f0000-0000-7000-8000-000000000001"

# The answers of an IMAP server, each to one line of the client (`foreign_readers`): until the client has signed in, to
# LIST, and to what looks for a message in one folder.
_IMAP_START = b"\0".join(
    (
        b"* OK ready\r\n",
        b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\nTAG OK done\r\n",
        b"+ \r\n",
        b"TAG OK in\r\n",
        b"* CAPABILITY IMAP4rev1 MOVE UIDPLUS\r\nTAG OK done\r\n",
    )
)
_IMAP_DONE = b"TAG OK done\r\n"
_IMAP_LIST = b'* LIST (\\Noselect) "/" "x"\r\nTAG OK done\r\n'
_IMAP_FOUND = b"\0".join(
    (
        b"* 3 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nTAG OK [READ-ONLY] x\r\n",
        b"* SEARCH 7\r\nTAG OK done\r\n",
        b"* 1 FETCH (UID 7 RFC822.SIZE 5)\r\nTAG OK done\r\n",
        b"* 1 FETCH (UID 7 BODY[] {5}\r\nhello)\r\nTAG OK done\r\n",
    )
)

SERVICE: tuple[Target, ...] = (
    Target(
        "smtp-commands",
        lambda data: parse_command(data, SmtpLimits()),
        lines(
            'MAIL FROM:<"a\\"b"@c.example> SIZE=1 BODY=8BITMIME',
            "RCPT TO:<@a,@b:c@d> NOTIFY=NEVER",
            "BDAT 10 LAST",
            "XCLIENT NAME=a ADDR=[UNAVAILABLE] LOGIN=+41",
            "EHLO [192.0.2.1]",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "smtp-data",
        readers.receive_data,
        lines(
            "a\r\n..b\r\n.\r\nc",
            ".\r\n",
            "a\n.\r\n",
            "Received: a\r\nX-Gatepost-Id: 1\r\n b\r\nAuthentication-Results: b.example; x\r\n\r\nc",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "milter-frames",
        readers.read_milter_frames,
        seeds.milter_conversations,
        cheap=True,
    ),
    Target(
        "smtp-replies",
        readers.read_replies,
        lines(
            "250-a\r\n250 2.0.0 b\r\n",
            "421 4.3.2 \x01\r\n354 go\r\n",
            "250 2.0.0 Ok: queued as 4XyZ\r\n250 OK id=1tAbCd-0001-5x\r\n",
            "250 2.6.0 <a@b> [InternalId=1234, Hostname=c]\r\n250 2.0.0 <d@e> fGhI Saved\r\n",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "rewritten-senders",
        service_readers.read_rewritten,
        lines(
            "SRS0=abcdefgh=ab=x.example=ann@srs.example",
            "SRS1=abcdefgh=first.example==abcdefgh=ab=x.example=ann@srs.example",
            "srs1+a=b=-c@d",
            "ann@x.example",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "report-addresses",
        service_readers.read_report_addresses,
        lines(
            "mailto:a@x.example!10m,mailto:b%2Bc@y.example",
            "https://x.example/r, MAILTO:d@z.example",
            "mailto:%0d%0a@x",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "drop-in-requests",
        service_readers.read_drop_in_request,
        lines(
            "PROCESS SPAMC/1.5\nContent-length: 12\nUser: ann\nCompress: zlib",
            "POST /checkv2 HTTP/1.1\nFrom: a@x.example\nRcpt: b@y.example\nIP: 192.0.2.1\nContent-Length: 3",
            "SYMBOLS RSPAMC/1.3\nHelo: x\nContent-length: 0",
            "POST /../x HTTP/1.1\nTransfer-Encoding: chunked",
        ),
        cheap=True,
        most=2_000,
    ),
    Target(
        "imap-answers",
        foreign_readers.read_mailbox,
        lines(
            b"\0".join((_IMAP_START, _IMAP_LIST, _IMAP_FOUND, b"TAG NO it is there\r\n", *[_IMAP_DONE] * 6)),
            b"\0".join((_IMAP_START, b'* LIST () "/" {3}\r\na b\r\n* LIST () NIL a\r\n' + _IMAP_DONE, _IMAP_FOUND)),
            b"\0".join((_IMAP_START, _IMAP_LIST, _IMAP_DONE, b"* SEARCH 1:* x 7\r\n" + _IMAP_DONE)),
            b"* PREAUTH x\r\n\0* CAPABILITY {99999999999999999999}\r\n",
        ),
        most=2_000,
    ),
    Target(
        "imported-spamassassin",
        foreign_readers.import_spamassassin,
        lines(
            "required_score 5\nwhitelist_from *@a.example\nscore X 3.5\nheader X Subject =~ /viagra|c[1i]alis/i\nendif",
            "body Y m{\\bfree\\b}ix\nmeta Z (X && !Y)\nuri U /\\.zip$/\ndescribe U a link\ntrusted_networks 192.0.2/24",
        ),
        most=2_000,
    ),
    Target(
        "imported-rspamd",
        foreign_readers.import_rspamd,
        lines(
            '{"options": {}, "multimap": {"a": {"type": "from", "map": ["b@c.example", "/etc/x.map"], "score": -3.0}}}',
            '{"options": {"local_addrs": "192.0.2.0/24"}, "settings": [{"p": {"ip": "::1", "whitelist": true}}]}',
            '{"options": {}, "dkim_signing": {"domain": {"e.example": {"path": "/k", "selector": "s"}}}, "a": null}',
        ),
        most=2_000,
    ),
    Target(
        "imported-senders",
        foreign_readers.import_senders,
        lines(
            "a.example OK\nb@c.example 550 no\n.d.example REJECT",
            '[{"name": "x", "entries": ["a@b.example"]}]',
            "Identity,Value,Action\nx,a@b.example,Block\n",
        ),
        cheap=True,
        most=2_000,
    ),
    Target(
        "scram-challenge",
        lambda data: parse_challenge(readers.decode_text(data), "n"),
        lines("r=nonce,s=c2FsdA==,i=4096", "r=n,s=,i=99999999", "m=x,r=nn,s=é,i=٤"),
        cheap=True,
        most=600,
    ),
    Target(
        "digest-link",
        lambda data: read_link(readers.decode_text(data), [DigestKey(1, bytes(32), 0)], 0),
        lambda: [sign_link(DigestLink(_ID, _ID, 1_000), DigestKey(1, bytes(32), 0)).encode()],
        cheap=True,
        most=300,
    ),
    Target("security-key", service_readers.read_new_key, seeds.security_keys, most=4_000),
    Target("security-key-answer", service_readers.read_key_answer, seeds.key_answers, most=2_000),
    Target("upload", readers.receive_upload, seeds.uploads, most=2_000),
    Target("worker-frames", readers.read_frames, seeds.frames, cheap=True, most=2_000),
    Target(
        "list-entries",
        readers.normalise_entry,
        lines(
            "ann@example.com",
            "Name <a@b.example>",
            "*.example.com",
            "hxxps://x[.]y/*",
            "192.0.2.0/24",
            "2001:db8::1",
            "sha256:" + "a" * 64,
            "exe",
            "пример.рф",
            "a phrase",
        ),
        most=300,
    ),
    Target(
        "list-files",
        readers.read_list_file,
        lines('entry,comment,expires\n"a@b","x ""y""",2027-01-01\n', '{"entry":"a","comment":null}\n', "# c\na\n"),
        cheap=True,
        most=1_000,
    ),
    Target("settings", readers.read_settings, seeds.configurations, most=4_096),
    Target(
        "policy",
        lambda data: read_policy_file(readers.decode_text(data), shipped_policy()),
        lines(
            '[verdicts.spam]\nthreshold = 5.0\n[kinds."text:urgency"]\nweight = 1\nverdict = "spam"\n'
            "[groups]\na.cap = 2\n"
        ),
        most=2_000,
    ),
    Target(
        "conditions",
        service_readers.read_condition,
        lines(
            "tags.exists(t, t.startsWith('auth:')) && sender_domain == 'a.example' || size > 5000",
            "headers['x-a'].exists(v, v.matches('(?i)b{2,9}[^c]')) ? !known : files.all(f, f.type in ['pdf', 'zip'])",
            "links.filter(h, h.endsWith('.top')).map(h, h + subject).size() >= 1 && has(headers.received)",
        ),
        most=2_200,
    ),
    Target(
        "searches",
        service_readers.read_search,
        lines(
            "ann@a.example",
            "<hxxps://b[.]example/c>",
            "q=018f0000-0000-7000-8000-000000000001&before=%00&unsent-path=/a&unsent-fields=b%3Dc",
            "2001:db8::1",
            "4XyZ1234 auth:dmarc-fail *.c.example",
            'from:a@b.example (host:c OR NOT url:d.example/e) -subject:"f \\"g" score>=7.5 after:7d before:2026-11-01',
        ),
        cheap=True,
        most=1_000,
    ),
    Target(
        "feeds-of-lines",
        service_readers.read_feed("plain", "csv", "jsonl"),
        lines(
            "# c\nhttp://a.example/x # seen\n192.0.2.1 ; y\nann@b.example\n",
            'entry,"a ""b"""\n"http://a.example/x\ny",2\n',
            '{"a": {"entry": ["http://a.example/", "' + "0" * 64 + '"]}}\n{"a": 1}\n',
        ),
        most=2_000,
    ),
    Target("provider-tokens", service_readers.read_token, service_readers.claims, most=2_000),
    Target(
        "api-bodies",
        service_readers.read_bodies,
        lines(
            '{"listName": "blocked-urls", "entries": [{"entry": "a.example", "comment": null, "expires": '
            '"2030-01-31T12:00:00Z"}], "tenantUid": "018f0000-0000-7000-8000-000000000001"}',
            '{"filter": {"sender": "a@b.example", "verdict": ["spam"]}, "limit": 5, "ggrids": ["x"]}',
            '{"borderMtaData": {"envelopeFrom": "<a@b>", "envelopeRecipients": ["c@d"], "remoteAddress": "::1", '
            '"senderHelo": "x"}, "tenantUid": null}',
        ),
        most=2_000,
    ),
)
