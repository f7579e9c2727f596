"""Reports as generators write them, by what they publish of their formats, and the mail that carries them."""

import gzip
import io
import zipfile
from email.message import EmailMessage

DAY = 86_400
BEGIN = 1_763_251_200  # 16 November 2025, 00:00 UTC


def record(
    source: str = "192.0.2.1",
    count: int | str = 1,
    *,
    dkim: str = "pass",
    spf: str = "pass",
    disposition: str = "none",
    header_from: str = "y.example",
    signer: str = "y.example",
) -> str:
    return f"""<record><row><source_ip>{source}</source_ip><count>{count}</count><policy_evaluated>
<disposition>{disposition}</disposition><dkim>{dkim}</dkim><spf>{spf}</spf></policy_evaluated></row>
<identifiers><header_from>{header_from}</header_from></identifiers>
<auth_results><dkim><domain>{signer}</domain><selector>s1</selector><result>{dkim}</result></dkim>
<spf><domain>{header_from}</domain><result>{spf}</result></spf></auth_results></record>"""


def aggregate(
    *records: str,
    domain: str = "y.example",
    begin: int | str = BEGIN,
    end: int | str = BEGIN + DAY - 1,
    number: str = "1",
) -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?><feedback><report_metadata><org_name>r.example</org_name>
<email>dmarc@r.example</email><report_id>{number}</report_id><date_range><begin>{begin}</begin><end>{end}</end>
</date_range></report_metadata><policy_published><domain>{domain}</domain><p>none</p></policy_published>
{"".join(records or (record(),))}</feedback>"""


GOOGLE = """<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
  <version>1.0</version>
  <report_metadata>
    <org_name>google.com</org_name>
    <email>noreply-dmarc-support@google.com</email>
    <extra_contact_info>https://support.google.com/a/answer/2466580</extra_contact_info>
    <report_id>12345678901234567890</report_id>
    <date_range>
      <begin>1763251200</begin>
      <end>1763337599</end>
    </date_range>
  </report_metadata>
  <policy_published>
    <domain>y.example</domain>
    <adkim>r</adkim>
    <aspf>r</aspf>
    <p>none</p>
    <sp>none</sp>
    <pct>100</pct>
    <np>none</np>
  </policy_published>
  <record>
    <row>
      <source_ip>2001:db8::25</source_ip>
      <count>7</count>
      <policy_evaluated>
        <disposition>none</disposition>
        <dkim>pass</dkim>
        <spf>fail</spf>
      </policy_evaluated>
    </row>
    <identifiers>
      <header_from>y.example</header_from>
    </identifiers>
    <auth_results>
      <dkim>
        <domain>y.example</domain>
        <result>pass</result>
        <selector>s1</selector>
      </dkim>
      <dkim>
        <domain>esp.example</domain>
        <result>pass</result>
        <selector>k2</selector>
      </dkim>
      <spf>
        <domain>bounces.esp.example</domain>
        <result>pass</result>
      </spf>
    </auth_results>
  </record>
</feedback>
"""

MICROSOFT = """<?xml version="1.0"?>
<feedback xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <version>1.0</version>
  <report_metadata>
    <org_name>Enterprise Outlook</org_name>
    <email>dmarcreport@microsoft.com</email>
    <report_id>0123456789abcdef0123456789abcdef</report_id>
    <date_range><begin>1763251200</begin><end>1763337600</end></date_range>
  </report_metadata>
  <policy_published>
    <domain>y.example</domain><adkim>r</adkim><aspf>r</aspf><p>quarantine</p><sp>quarantine</sp><pct>100</pct><fo>0</fo>
  </policy_published>
  <record>
    <row>
      <source_ip>192.0.2.77</source_ip>
      <count>3</count>
      <policy_evaluated><disposition>quarantine</disposition><dkim>fail</dkim><spf>fail</spf></policy_evaluated>
    </row>
    <identifiers>
      <envelope_to>customer.example</envelope_to>
      <envelope_from>y.example</envelope_from>
      <header_from>y.example</header_from>
    </identifiers>
    <auth_results>
      <spf><domain>y.example</domain><scope>mfrom</scope><result>fail</result></spf>
    </auth_results>
  </record>
  <record>
    <row>
      <source_ip>192.0.2.5</source_ip>
      <count>40</count>
      <policy_evaluated><disposition>none</disposition><dkim>pass</dkim><spf>pass</spf></policy_evaluated>
    </row>
    <identifiers>
      <envelope_to>customer.example</envelope_to><envelope_from>y.example</envelope_from><header_from>y.example</header_from>
    </identifiers>
    <auth_results>
      <dkim><domain>y.example</domain><selector>selector1</selector><result>pass</result></dkim>
      <spf><domain>y.example</domain><scope>mfrom</scope><result>pass</result></spf>
    </auth_results>
  </record>
</feedback>
"""

YAHOO = (
    '<?xml version="1.0"?><feedback><report_metadata><org_name>Yahoo</org_name><email>dmarchelp@yahooinc.com</email>'
    "<report_id>1763340000.123456</report_id><date_range><begin>1763251200</begin><end>1763337599</end></date_range>"
    "</report_metadata><policy_published><domain>y.example</domain><adkim>r</adkim><aspf>r</aspf><p>reject</p>"
    "<pct>100</pct></policy_published><record><row><source_ip>198.51.100.9</source_ip><count>2</count><policy_evaluated>"
    "<disposition>reject</disposition><dkim>fail</dkim><spf>fail</spf></policy_evaluated></row><identifiers>"
    "<header_from>y.example</header_from></identifiers><auth_results><dkim><domain>null</domain><result>neutral</result>"
    "</dkim><spf><domain>forger.example</domain><result>none</result></spf></auth_results></record></feedback>"
)

MIMECAST = """<?xml version='1.0' encoding='utf-8'?>
<dmarc:feedback xmlns:dmarc="http://dmarc.org/dmarc-xml/0.1"><dmarc:report_metadata><dmarc:org_name>Mimecast.Org</dmarc:org_name>
<dmarc:email>no-reply@uk.dmarc-report.example</dmarc:email><dmarc:report_id>abc-1</dmarc:report_id>
<dmarc:date_range><dmarc:begin>1763251200</dmarc:begin><dmarc:end>1763337599</dmarc:end></dmarc:date_range>
</dmarc:report_metadata><dmarc:policy_published><dmarc:domain>Y.Example</dmarc:domain><dmarc:p>none</dmarc:p>
</dmarc:policy_published><dmarc:record><dmarc:row><dmarc:source_ip> 192.0.2.5
</dmarc:source_ip><dmarc:count>11</dmarc:count><dmarc:policy_evaluated><dmarc:disposition>none</dmarc:disposition>
<dmarc:dkim>fail</dmarc:dkim><dmarc:spf>pass</dmarc:spf><dmarc:reason><dmarc:type>forwarded</dmarc:type><dmarc:comment/>
</dmarc:reason></dmarc:policy_evaluated></dmarc:row><dmarc:identifiers><dmarc:header_from>news.y.example</dmarc:header_from>
</dmarc:identifiers><dmarc:auth_results><dmarc:spf><dmarc:domain>news.y.example</dmarc:domain><dmarc:result>pass</dmarc:result>
</dmarc:spf></dmarc:auth_results></dmarc:record></dmarc:feedback>
"""

# By RFC 9990: a vocabulary, how the policy was found, testing instead of pct, `pass` as a disposition.
FASTMAIL = """<?xml version="1.0" encoding="UTF-8"?>
<feedback xmlns="urn:ietf:params:xml:ns:dmarc-2.0"><version>1.0</version>
<report_metadata><org_name>Fastmail Pty Ltd</org_name><email>reports@fastmaildmarc.example</email>
<report_id>667788</report_id><date_range><begin>1763251200</begin><end>1763337599</end></date_range>
<generator>Mail::DMARC 1.20250610</generator></report_metadata>
<policy_published><domain>y.example</domain><discovery_method>treewalk</discovery_method><p>quarantine</p><sp>none</sp>
<np>reject</np><fo>1</fo><testing>y</testing></policy_published>
<record><row><source_ip>192.0.2.5</source_ip><count>5</count><policy_evaluated><disposition>pass</disposition><dkim>pass</dkim>
<spf>pass</spf></policy_evaluated></row><identifiers><envelope_from>y.example</envelope_from><header_from>y.example</header_from>
</identifiers><auth_results><dkim><domain>y.example</domain><selector>fm1</selector><result>pass</result><human_result/></dkim>
<spf><domain>y.example</domain><scope>mfrom</scope><result>pass</result></spf></auth_results></record>
<extensions><x xmlns="urn:other"><record>not one of ours</record></x></extensions></feedback>
"""

# As the tools of rspamd write them (`rspamadm dmarc_report`): no version, one signature after the other, no selector.
RSPAMD = """<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
  <report_metadata>
    <org_name>R &amp; D</org_name>
    <email>dmarc@r.example</email>
    <report_id>y.example.1763251200.1763337599</report_id>
    <date_range>
      <begin>1763251200</begin>
      <end>1763337599</end>
    </date_range>
  </report_metadata>
  <policy_published>
    <domain>y.example</domain>
    <adkim>r</adkim>
    <aspf>s</aspf>
    <p>none</p>
    <sp></sp>
    <pct>100</pct>
  </policy_published>
<record>
  <row>
    <source_ip>2001:db8::25</source_ip>
    <count>3</count>
    <policy_evaluated>
      <disposition>none</disposition>
      <dkim>pass</dkim>
      <spf>fail</spf>
      <reason><type>sampled_out</type></reason>
    </policy_evaluated>
  </row>
  <identifiers>
    <header_from>y.example</header_from>
  </identifiers>
  <auth_results>
    <dkim>
      <domain>other.example</domain>
      <result>fail</result>
    </dkim><dkim>
      <domain>y.example</domain>
      <result>pass</result>
    </dkim>
    <spf>
      <domain></domain>
      <result>none</result>
    </spf>
  </auth_results>
</record>
</feedback>
"""

# As those of OpenDMARC do (`opendmarc-reports`): a record for each message, a reason in each, SPF before DKIM.
OPENDMARC = (
    """<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
    <report_metadata>
        <org_name>mx.r.example</org_name>
         <email>postmaster@r.example</email>
         <report_id>y.example:1763337700</report_id>
         <date_range>
         <begin>1763251200</begin>
         <end>1763337700</end>
         </date_range>
    </report_metadata>
    <policy_published>
        <domain>y.example</domain>
        <adkim>r</adkim>
        <aspf>r</aspf>
        <p>reject</p>
        <sp>reject</sp>
        <pct>100</pct>
    </policy_published>
"""
    + 2
    * """    <record>
        <row>
            <source_ip>198.51.100.9</source_ip>
            <count>1</count>
            <policy_evaluated>
                <disposition>reject</disposition>
                <dkim>fail</dkim>
                <spf>fail</spf>
                <reason>
                    <type>local_policy</type>
                    <comment>arc=none</comment>
                </reason>
            </policy_evaluated>
        </row>
        <identifiers>
            <header_from>y.example</header_from>
        </identifiers>
        <auth_results>
            <spf>
                <domain>forger.example</domain>
                <result>pass</result>
            </spf>
            <dkim>
                <domain>forger.example</domain>
                <selector>s1</selector>
                <result>pass</result>
            </dkim>
        </auth_results>
    </record>
"""
    + "</feedback>\n"
)

TLS = """{"organization-name": "Google Inc.", "date-range": {"start-datetime": "2025-11-16T00:00:00Z",
"end-datetime": "2025-11-16T23:59:59Z"}, "contact-info": "smtp-tls-reporting@google.com",
"report-id": "2025-11-16T00:00:00Z_y.example", "policies": [{"policy": {"policy-type": "sts", "policy-string":
["version: STSv1", "mode: testing", "mx: mx.y.example", "max_age: 86400"], "policy-domain": "y.example",
"mx-host": ["mx.y.example"]}, "summary": {"total-successful-session-count": 120, "total-failure-session-count": 4},
"failure-details": [{"result-type": "certificate-expired", "sending-mta-ip": "2001:db8::1",
"receiving-mx-hostname": "MX.y.example", "failed-session-count": 3}, {"result-type": "starttls-not-supported",
"sending-mta-ip": "192.0.2.33", "receiving-mx-hostname": "old.y.example", "failed-session-count": 1}]},
{"policy": {"policy-type": "no-policy-found", "policy-domain": "z.y.example"},
"summary": {"total-successful-session-count": 9, "total-failure-session-count": 0}}]}"""


def zipped(text: str | bytes, name: str = "report.xml") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
    return target.getvalue()


def gzipped(text: str | bytes) -> bytes:
    return gzip.compress(text.encode() if isinstance(text, str) else text, mtime=0)


def mail(
    *files: tuple[str, str, bytes], sender: str = "dmarc@r.example", recipient: str = "dmarc@gate.example"
) -> bytes:
    """A mail with files: name, content type, bytes."""
    message = EmailMessage()
    message["From"], message["To"] = sender, recipient
    message["Subject"] = "Report Domain: y.example Submitter: r.example Report-ID: <1>"
    message["Date"], message["Message-ID"] = "Mon, 17 Nov 2025 01:00:00 +0000", "<1@r.example>"
    message.set_content("This is an aggregate report.")
    for name, kind, content in files:
        major, _, minor = kind.partition("/")
        message.add_attachment(content, maintype=major, subtype=minor, filename=name)
    return message.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def bare(content: bytes, kind: str, name: str) -> bytes:
    """A mail that is nothing but the file, as some generators send it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = (
        "dmarc@r.example",
        "dmarc@gate.example",
        "Report Domain: y.example",
    )
    major, _, minor = kind.partition("/")
    message.set_content(content, maintype=major, subtype=minor, filename=name)
    return message.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


FAILURE = b"""From: dmarc-noreply@r.example\r
To: ruf@gate.example\r
Subject: FW: offer\r
MIME-Version: 1.0\r
Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r
\r
--b\r
Content-Type: text/plain\r
\r
A message failed.\r
--b\r
Content-Type: message/feedback-report\r
\r
Feedback-Type: auth-failure\r
User-Agent: Lua/1.0\r
Version: 1\r
Original-Mail-From: <person@forger.example>\r
Original-Rcpt-To: <ann@r.example>\r
Arrival-Date: Sun, 16 Nov 2025 10:00:00 +0000\r
Source-IP: 198.51.100.9\r
Reported-Domain: y.example\r
Auth-Failure: dmarc\r
Delivery-Result: reject\r
Reporting-MTA: dns; mx.r.example\r
\r
--b\r
Content-Type: text/rfc822-headers\r
\r
From: Person <person@y.example>\r
Subject: offer\r
\r
--b--\r
"""
