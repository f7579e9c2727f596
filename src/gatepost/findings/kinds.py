"""Every kind of finding there is: its id, which is the tag in the API, and its title, which people read.

This module knows no check, no parser and no policy, so that storage, the services, the web pages and the command line
can name a kind without loading the detection. A check imports the kinds that it finds from here; `checks/registry.py`
says which check finds which, and a test holds the two to each other. A constant is named after its id.
"""

import msgspec

MAX_FACT = 300


class Finding(msgspec.Struct, frozen=True):
    """One fact: which kind, on what it was found, and what was seen there.

    `strength` (0 to 1) scales the weight of kinds that have degrees; most have none. `about` names the link (its URL)
    or the file (its SHA-256) that the finding is about, so that a list entry for just that one can clear it.
    """

    kind: str
    where: str
    facts: dict[str, str] = {}
    strength: float = 1.0
    about: str = ""


class Kind(msgspec.Struct, frozen=True):
    """A thing that can be found. Its id is the tag in the API; its title is the sentence that a person reads."""

    id: str
    title: str

    def at(self, where: str, *, strength: float = 1.0, about: str = "", **facts: object) -> Finding:
        """Return a finding of this kind, with its texts cut to what a ledger keeps."""
        shown = {name: str(value)[:MAX_FACT] for name, value in facts.items()}
        return Finding(self.id, where[:MAX_FACT], shown, strength, about)


# Authentication: what SPF, DKIM and DMARC say of the sender (RFC 7208, RFC 6376, RFC 9989).
AUTH_DMARC_REJECT = Kind("auth:dmarc-reject", "Not authenticated, and the From domain asks to reject such mail (DMARC)")
AUTH_DMARC_FAIL = Kind("auth:dmarc-fail", "Not authenticated by the domain of the From address (DMARC)")
AUTH_DMARC_PASS = Kind("auth:dmarc-pass", "Authenticated by the domain of the From address (DMARC)")
AUTH_SPF_FAIL = Kind("auth:spf-fail", "The sending host is not authorised by the envelope sender's domain (SPF fail)")
AUTH_SPF_SOFTFAIL = Kind(
    "auth:spf-softfail", "The sending host is probably not authorised by that domain (SPF softfail)"
)
AUTH_DKIM_FAIL = Kind("auth:dkim-fail", "A DKIM signature does not verify")
AUTH_DKIM_PARTIAL = Kind("auth:dkim-partial", "The DKIM signature leaves part of the body unsigned")
AUTH_DKIM_TESTING = Kind("auth:dkim-testing", "The only valid DKIM signature uses a key in test mode")
AUTH_DKIM_WEAK_KEY = Kind("auth:dkim-weak-key", "The DKIM signature uses a key that is too short")
AUTH_PERMERROR = Kind("auth:permerror", "A domain's authentication records are invalid")
AUTH_TEMPERROR = Kind("auth:temperror", "DNS did not answer, so authentication could not be checked")

# Senders: who the message says it is from.
SENDER_BRAND_IMPERSONATION = Kind(
    "sender:brand-impersonation", "Sender name impersonates a well-known company; the domain is not theirs"
)
SENDER_BROKEN_HABIT = Kind("sender:broken-habit", "The sender's domain always authenticated before; this mail does not")
SENDER_CHEAP_ENDING = Kind("sender:cheap-ending", "The sender's domain is under a cheap top-level domain")
SENDER_DECORATED_NAME = Kind("sender:decorated-name", "The sender's name contains emoji or symbols")
SENDER_DISPLAY_NAME_DOMAIN = Kind("sender:display-name-domain", "Sender name shows a domain that is not the sender's")
SENDER_DISGUISED_NAME = Kind("sender:disguised-name", "The sender's name spells a company in look-alike characters")
SENDER_DISPLAY_NAME_SPOOF = Kind("sender:display-name-spoof", "The display name shows an address of another domain")
SENDER_ENVELOPE_FREEMAIL = Kind("sender:envelope-freemail", "Sent through a free mailbox for another domain")
SENDER_ENVELOPE_SCRIPT = Kind("sender:envelope-script", "Sent by a server account (root@…) for another domain")
SENDER_FIRST_CONTACT = Kind("sender:first-contact", "First message from this sender and its organisation")
SENDER_FREE_HOSTING = Kind("sender:free-hosting", "The sender's domain is a name on a free hosting service")
SENDER_FREEMAIL_POSE = Kind("sender:freemail-pose", "A bank, office or authority by name writes from a free mailbox")
SENDER_HOMOGRAPH = Kind("sender:homograph", "The sender's domain imitates another in look-alike letters")
SENDER_INVALID_FROM = Kind("sender:invalid-from", "The sender's address cannot exist")
SENDER_INVISIBLE_CHARACTERS = Kind("sender:invisible-characters", "The sender's name contains invisible characters")
SENDER_LOOKALIKE_DOMAIN = Kind("sender:lookalike-domain", "The sender's domain imitates a trusted domain")
SENDER_MACHINE_NAME = Kind("sender:machine-name", "The sender's domain is a provider's automatic name of an IP address")
SENDER_MISSING_FROM = Kind("sender:missing-from", "The message names no sender")
SENDER_MIXED_SCRIPT_NAME = Kind("sender:mixed-script-name", "A word of the sender's name mixes alphabets")
SENDER_NEW_REPLY_TO = Kind("sender:new-reply-to", "A known sender's replies go elsewhere for the first time")
SENDER_NULL_SENDER = Kind("sender:null-sender", "The envelope sender is empty, but this is not a delivery report")
SENDER_OWN_DOMAIN_SPOOF = Kind("sender:own-domain-spoof", "Claims one of your own domains and is not authenticated")
SENDER_PROTECTED_PERSON = Kind("sender:protected-person", "An outsider uses the name of a protected person")
SENDER_PROVIDER_ABSENT = Kind("sender:provider-absent", "Claims a large provider, but never was on a host of it")
SENDER_RANDOM_DOMAIN = Kind("sender:random-domain", "The sender's domain looks randomly generated")
SENDER_RANDOM_MAILBOX = Kind("sender:random-mailbox", "The sender's mailbox name looks randomly generated")
SENDER_RECIPIENT_DOMAIN = Kind("sender:recipient-domain", "The sender's name shows the recipient's own domain")
SENDER_REPLY_TO_FREEMAIL = Kind("sender:reply-to-freemail", "Reply-To is a free mailbox, different from the sender")
SENDER_REPLY_TO_MISMATCH = Kind("sender:reply-to-mismatch", "Reply-To is at another organisation than the sender")
SENDER_RETURN_PATH_MISMATCH = Kind("sender:return-path-mismatch", "The envelope sender is not of the From organisation")
SENDER_SELF_SENT = Kind("sender:self-sent", "The message claims to be from its own recipient, without proof")
SENDER_SEVERAL_FROM = Kind("sender:several-from", "From names several senders of different domains")
SENDER_THROWAWAY_REPLY_TO = Kind("sender:throwaway-reply-to", "Answers go to a cheap or random domain of somebody else")
SENDER_STRANGER_ASKS = Kind("sender:stranger-asks", "A first-time sender asks for a payment, gift card or favour")

# The envelope (RFC 5321 section 4.1.2).
ENVELOPE_MALFORMED_SENDER = Kind("envelope:malformed-sender", "The envelope sender is no address")
ENVELOPE_MALFORMED_RECIPIENT = Kind("envelope:malformed-recipient", "An envelope recipient is no address")

# The sending host: its HELO name (RFC 5321 section 4.1.1.1) and its reverse DNS name (RFC 8601 section 3).
HELO_BARE_IP = Kind("helo:bare-ip", "The sending host's HELO name is a bare IP address")
HELO_DYNAMIC_NAME = Kind("helo:dynamic-name", "The sending host's HELO name is that of a dial-up or home line")
HELO_FREEMAIL = Kind("helo:freemail", "The sending host's HELO name is the bare domain of a free mail service")
HELO_LOCAL_NAME = Kind("helo:local-name", "The sending host's HELO name is only valid inside its own network")
HELO_NO_DOT = Kind("helo:no-dot", "The sending host's HELO name is a single word")
HELO_OWN_DOMAIN = Kind("helo:own-domain", "The sending host's HELO name is the recipient's own domain")
HELO_UNKNOWN_ENDING = Kind("helo:unknown-ending", "The sending host's HELO name has a non-existent top-level domain")
HOST_DYNAMIC_NAME = Kind("host:dynamic-name", "The sending host is a dial-up or home line by its reverse DNS name")
HOST_FALSE_NAME = Kind("host:false-name", "The sending host's reverse DNS name does not lead back to it")
HOST_NO_NAME = Kind("host:no-name", "The sending host has no reverse DNS name")
HOST_RECORDED_FALSE_NAME = Kind(
    "host:recorded-false-name", "A server of the recipient recorded a sending host whose name does not lead back to it"
)
HOST_RECORDED_HELO = Kind(
    "host:recorded-helo", "A server of the recipient recorded a HELO name that no mail server has"
)
HOST_RECORDED_LINE = Kind("host:recorded-line", "A server of the recipient took the mail from a dial-up or home line")
HOST_RECORDED_NO_NAME = Kind(
    "host:recorded-no-name", "A server of the recipient recorded a sending host without a name in DNS"
)
HOST_DESKTOP_PROGRAM = Kind("host:desktop-program", "A desktop mail program delivered to our border itself")

# Reputation: what the operator's DNS zones say (RFC 5782).
REPUTATION_ALLOWED_HOST = Kind("reputation:allowed-host", "The sending host is on a DNS allow list")
REPUTATION_DYNAMIC_HOST = Kind(
    "reputation:dynamic-host", "A DNS block list says that the sending host is an access line, not a mail server"
)
REPUTATION_LISTED_ADDRESS = Kind("reputation:listed-address", "An address of the message is on a DNS block list")
REPUTATION_LISTED_FILE = Kind("reputation:listed-file", "A file is listed as harmful by a DNS zone of file hashes")
REPUTATION_LISTED_HOST = Kind("reputation:listed-host", "The sending host is on a DNS block list")
REPUTATION_LISTED_LINK = Kind("reputation:listed-link", "A link leads to a domain that is on a DNS block list")
REPUTATION_LISTED_SENDER = Kind("reputation:listed-sender", "The sender's domain is on a DNS block list")
REPUTATION_MALWARE_LINK = Kind(
    "reputation:malware-link", "A link leads to a domain that a DNS block list names for malware"
)
REPUTATION_NEW_LINK = Kind("reputation:new-link", "A link leads to a domain that was registered lately")
REPUTATION_NEW_SENDER = Kind("reputation:new-sender", "The sender's domain was registered lately")
REPUTATION_NO_ANSWER = Kind("reputation:no-answer", "A reputation zone could not be asked")
REPUTATION_PHISHING_LINK = Kind(
    "reputation:phishing-link", "A link leads to a domain that a DNS block list names for phishing"
)
REPUTATION_PHISHING_SENDER = Kind(
    "reputation:phishing-sender", "The sender's domain is on a DNS block list for phishing or malware"
)

# Header fields: how the header was written.
HEADER_BAD_MESSAGE_ID = Kind("header:bad-message-id", "The Message-ID is malformed")
HEADER_BORROWED_MESSAGE_ID = Kind("header:borrowed-message-id", "The Message-ID imitates one of a large mail provider")
HEADER_DATE_AHEAD = Kind("header:date-ahead", "The message is dated later than it was received")
HEADER_DATE_BEHIND = Kind("header:date-behind", "The message is dated long before it was received")
HEADER_FAKE_BOUNCE = Kind("header:fake-bounce", "The subject is that of a bounce, but this is no delivery report")
HEADER_FAKE_REPLY = Kind("header:fake-reply", "The subject claims a reply or forward, but refers to no message")
HEADER_FORGED_MAILER = Kind("header:forged-mailer", "The message claims a mail program whose habits it does not have")
HEADER_FORGED_RECEIVED = Kind("header:forged-received", "Received fields contain entries that no mail server writes")
HEADER_INVENTED_THREAD = Kind("header:invented-thread", "A reply quotes mail of the recipient's, but refers to none")
HEADER_INVISIBLE_SUBJECT = Kind("header:invisible-subject", "The subject contains invisible characters inside words")
HEADER_MONEY_SUBJECT = Kind("header:money-subject", "The subject names an amount of money")
HEADER_NO_DATE = Kind("header:no-date", "The message has no readable date")
HEADER_NO_MESSAGE_ID = Kind("header:no-message-id", "The message has no Message-ID")
HEADER_NO_RECIPIENTS = Kind("header:no-recipients", "To and Cc name no recipient")
HEADER_BLIND_COPY_REPLY = Kind("header:blind-copy-reply", "Names no recipient, and answers go to another free mailbox")
HEADER_BLIND_COPY_FREEMAIL = Kind("header:blind-copy-freemail", "A free mailbox writes without naming a recipient")
HEADER_ADDRESSED_TO_SENDER = Kind("header:addressed-to-sender", "Addressed to its own sender, and answers go elsewhere")
HEADER_ADVERTISING_LABEL = Kind("header:advertising-label", "The subject is labelled as advertising")
HEADER_CREDITED_SUM = Kind("header:credited-sum", "A free mailbox reports a credited sum in the subject")
HEADER_CLOCKS_DIFFER = Kind("header:clocks-differ", "The clock inside the Message-ID and the Date differ")
HEADER_FOREIGN_CHARSET = Kind("header:foreign-charset", "A plain text declares a character set of another alphabet")
HEADER_FORGED_MESSAGE_ID = Kind("header:forged-message-id", "The Message-ID is Outlook's by its form only")
HEADER_ODD_ZONE = Kind("header:odd-zone", "The Date has a time zone that does not exist")
HEADER_HIGH_PRIORITY = Kind("header:high-priority", "A first letter is flagged as urgent")
HEADER_ODD_DATE = Kind("header:odd-date", "The Date is written as no mail program writes it")
HEADER_ODD_FROM = Kind("header:odd-from", "From is written as no mail program writes it")
HEADER_ODD_SPELLING = Kind("header:odd-spelling", "The name of a header field is written as no mail program writes it")
HEADER_RAW_CHARACTERS = Kind("header:raw-characters", "From, To or Subject holds characters that were not encoded")
HEADER_RANDOM_TAIL = Kind("header:random-tail", "The subject ends with a row of random characters")
HEADER_SCRIPT = Kind("header:script", "A script on a web server sent the message")
HEADER_ODD_MAILER = Kind("header:odd-mailer", "The mail program's name is a few random characters")
HEADER_SHOUTING_SUBJECT = Kind("header:shouting-subject", "The subject is in capitals or full of exclamation marks")
HEADER_JOINED_SUBJECT = Kind("header:joined-subject", "The subject has underscores in place of blanks")
HEADER_STYLED_SUBJECT = Kind("header:styled-subject", "The subject is written in styled look-alike letters")
HEADER_STOLEN_THREAD = Kind(
    "header:stolen-thread", "Answers a conversation of the recipient in which the sender had no part"
)
HEADER_SUBJECT_TAIL = Kind("header:subject-tail", "The subject ends with a mark behind a long row of blanks")
HEADER_UNFILLED_TEMPLATE = Kind("header:unfilled-template", "A header field contains an unfilled placeholder")

# Links: where they lead, and what they show.
URL_BRAND_IN_PATH = Kind("url:brand-in-path", "A link has a trusted site's name in the path of another site")
URL_CHEAP_ENDING = Kind("url:cheap-ending", "A link leads to a domain under a cheap top-level domain")
URL_DEEP_SUBDOMAIN = Kind("url:deep-subdomain", "A link leads to a host many levels below its registered domain")
URL_DOUBLE_EXTENSION = Kind("url:double-extension", "A link downloads a file with a misleading double extension")
URL_DOWNLOAD = Kind("url:download", "A link downloads a program or an archive")
URL_DRAWN_CODE = Kind("url:drawn-code", "A QR code is drawn with cells, characters or several pictures")
URL_FOREIGN_TARGET = Kind("url:foreign-target", "All links go to one site unrelated to the sender")
URL_FORM_SERVICE = Kind("url:form-service", "A link leads to a form on a free form service")
URL_FREE_HOSTING = Kind("url:free-hosting", "A link leads to a page on a free hosting service")
URL_HOMOGRAPH = Kind("url:homograph", "A link leads to a host that imitates another in look-alike letters")
URL_IP_HOST = Kind("url:ip-host", "A link leads to a bare IP address")
URL_LOOKALIKE_DOMAIN = Kind("url:lookalike-domain", "A link leads to a domain that imitates a trusted one")
URL_MACHINE_NAME = Kind("url:machine-name", "A link leads to a provider's automatic name for an IP address")
URL_MANY_HYPHENS = Kind("url:many-hyphens", "A link leads to a host with many hyphens in its name")
URL_NEW_HOST = Kind("url:new-host", "A link leads to a site that no earlier message linked to")
URL_NEW_HOST_ASKS = Kind("url:new-host-asks", "Asks for an account or a secret on a site never linked to before")
URL_ODD_PORT = Kind("url:odd-port", "A link leads to a port that web sites do not use")
URL_LEADS_HOME = Kind("url:leads-home", "DMARC proves the sender, and no link leads elsewhere")
URL_OPEN_REDIRECT = Kind("url:open-redirect", "A link starts at a well-known site and redirects to another")
URL_PERSONAL_REDIRECT = Kind("url:personal-redirect", "A page redirects to an address that carries the recipient's")
URL_QR_CODE = Kind("url:qr-code", "A picture contains a QR code that leads to a web page")
URL_PICTURE_HOST = Kind("url:picture-host", "Shows pictures from a host where anybody can put some")
URL_RANDOM_HOST = Kind("url:random-host", "A link leads to a domain that looks randomly generated")
URL_RECIPIENT_ADDRESS = Kind("url:recipient-address", "A link carries the recipient's address to an unrelated site")
URL_SHORTENED_LINKS = Kind("url:shortened-links", "Several shortened links and hardly any text, from a free mailbox")
URL_SHORTENER = Kind("url:shortener", "A link leads through a link shortener, which hides its target")
URL_TEXT_MISMATCH = Kind("url:text-mismatch", "A link shows the address of one site and leads to another")
URL_USERINFO = Kind("url:userinfo", "A link shows a false host name before the real one")

# Text: what it wants of its reader, how it is written, and what the classifier makes of it.
TEXT_ADVANCE_FEE = Kind("text:advance-fee", "Offers a fortune in return for help or data")
TEXT_LARGE_SUM = Kind("text:large-sum", "A letter of unclear origin speaks of a large sum of money")
TEXT_OPENING_LETTER = Kind("text:opening-letter", "A stranger asks for an answer, and hides something")
TEXT_AUTHORITY_LURE = Kind("text:authority-lure", "Poses as a court, tax office or other authority, and gives a link")
TEXT_BARE_LINK = Kind("text:bare-link", "The message is hardly more than a link")
TEXT_BIDI_OVERRIDE = Kind("text:bidi-override", "Text is made to run backwards")
TEXT_BRAND_WITHOUT_LINK = Kind(
    "text:brand-without-link", "Written as a well-known company, but neither sender nor links are theirs"
)
TEXT_CALL_BACK = Kind("text:call-back", "Reports a charge and gives only a telephone number to call")
TEXT_CARRIED_MESSAGE = Kind("text:carried-message", "The text of an attached message is proven to be somebody else's")
TEXT_CONSENT_LURE = Kind("text:consent-lure", "Asks to let an application read mail or files")
TEXT_CREDENTIAL_LURE = Kind("text:credential-lure", "Asks to confirm an account or secret, and gives a link")
TEXT_CRYPTO_LURE = Kind("text:crypto-lure", "Offers or threatens the reader's cryptocurrency, and gives a link")
TEXT_DEVICE_CODE = Kind("text:device-code", "Asks to enter a code that signs in somebody else's device")
TEXT_DISGUISED_NUMBER = Kind("text:disguised-number", "The text disguises a telephone number")
TEXT_DISGUISED_WORDS = Kind("text:disguised-words", "Advertising words are spelled with digits, signs or gaps")
TEXT_DOCUMENT_LURE = Kind("text:document-lure", "Announces a document or message, and gives a link")
TEXT_ERRAND = Kind("text:errand", "Opens like a superior's request: are you there, keep it quiet")
TEXT_EXTORTION = Kind("text:extortion", "Threatens the reader and demands money")
TEXT_GIFT_CARDS = Kind("text:gift-cards", "Asks to buy gift cards and to send their codes")
TEXT_GTUBE = Kind("text:gtube", "The text has the GTUBE test string of spam filters")
TEXT_HIDDEN = Kind("text:hidden", "Much of the text is hidden from the reader")
TEXT_IMAGE_ONLY = Kind("text:image-only", "The message is a linked picture with hardly any text")
TEXT_INVISIBLE_CHARACTERS = Kind("text:invisible-characters", "Words are split by invisible characters")
TEXT_INVENTED_THREAD = Kind(
    "text:invented-thread", "A sender who is not known hands over a document or a link as if it had been talked about"
)
TEXT_JOB_OFFER = Kind("text:job-offer", "Offers easy, well-paid work to somebody who did not apply")
TEXT_MAILBOX_LURE = Kind("text:mailbox-lure", "Says that the mailbox is in trouble, and gives a link")
TEXT_MIXED_SCRIPT_WORDS = Kind("text:mixed-script-words", "Words mix look-alike letters of different alphabets")
TEXT_LEARNT_UNWANTED = Kind("text:learnt-unwanted", "Reads like mail that was reported as unwanted here")
TEXT_LEARNT_WANTED = Kind("text:learnt-wanted", "Reads like mail that was reported as wanted here")
TEXT_MODEL_FRAUD = Kind("text:model-fraud", "Text classifier: fraud")
TEXT_MODEL_PHISHING = Kind("text:model-phishing", "Text classifier: phishing")
TEXT_MODEL_SPAM = Kind("text:model-spam", "Text classifier: spam")
TEXT_NOTICE_LURE = Kind("text:notice-lure", "Text classifier: a lure in the form of a notice, very high confidence")
TEXT_MODEL_SURE = Kind("text:model-sure", "Text classifier: spam, very high confidence")
TEXT_MODEL_WANTED = Kind("text:model-wanted", "Text classifier: reads like wanted mail")
TEXT_PARCEL_LURE = Kind("text:parcel-lure", "Says that a parcel is waiting, and gives a link")
TEXT_PASTED_COMMAND = Kind("text:pasted-command", "Tells the reader to paste a command and run it")
TEXT_PAYROLL_CHANGE = Kind("text:payroll-change", "The text asks to pay a salary to another account")
TEXT_PAYMENT_CHANGE = Kind("text:payment-change", "Gives new bank details or asks for a transfer")
TEXT_PICTURE_FIRST = Kind("text:picture-first", "A letter without a link begins with a drawn picture")
TEXT_PLANTED_LINK = Kind("text:planted-link", "A link and a sum of money stand where the reader's name should")
TEXT_PLANTED_NAME = Kind("text:planted-name", "The name of the recipient is a message with a sum, a link or a number")
TEXT_PRIZE_LURE = Kind("text:prize-lure", "Promises a prize or reward, and gives a link")
TEXT_QR_LURE = Kind("text:qr-lure", "Asks to scan a code with a telephone")
TEXT_REFUND_LURE = Kind("text:refund-lure", "Promises a refund or threatens a fine, and gives a link")
TEXT_SALARY_LURE = Kind("text:salary-lure", "Poses as news about pay or benefits, and gives a link")
TEXT_SPAM_EXCUSE = Kind("text:spam-excuse", "Contains typical bulk-mail disclaimers")
TEXT_SPAM_VOCABULARY = Kind("text:spam-vocabulary", "Consists of phrases of unsolicited advertising")
TEXT_SUDDEN_SUM = Kind("text:sudden-sum", "A short note from a free mailbox reports money that came in")
TEXT_URGENCY = Kind("text:urgency", "Puts the reader under time pressure")
TEXT_WALLET_ADDRESS = Kind("text:wallet-address", "Contains the address of a crypto wallet")
TEXT_WORD_SALAD = Kind("text:word-salad", "Contains a long run of unconnected words")

# Bulk mail and campaigns: messages to many recipients.
BULK_DISCUSSION_LIST = Kind("bulk:discussion-list", "The message came through a discussion list")
BULK_MAILING_SERVICE = Kind("bulk:mailing-service", "The message was sent by a mailing service")
BULK_PRECEDENCE = Kind("bulk:precedence", "The message declares itself as bulk mail (Precedence)")
BULK_UNSUBSCRIBE = Kind("bulk:unsubscribe", "The message offers a way to unsubscribe (List-Unsubscribe)")
BULK_UNSUBSCRIBE_LINK = Kind("bulk:unsubscribe-link", "The message has a link to unsubscribe")
CAMPAIGN_BURST = Kind("campaign:burst", "Many recipients got nearly the same text within hours")
CAMPAIGN_HELD = Kind("campaign:held", "Nearly the same text as a message that was held as an attack")
CAMPAIGN_MARKED = Kind("campaign:marked", "Nearly the same text as a message that was marked as unwanted")

# Files: attachments, and what is inside of them.
FILE_ANTIVIRUS = Kind("file:antivirus", "The antivirus found malware")
FILE_ANTIVIRUS_HEURISTIC = Kind("file:antivirus-heuristic", "The antivirus suspects malware or an unwanted program")
FILE_CALENDAR_ORGANIZER = Kind("file:calendar-organizer", "An invitation names an organiser who is not its sender")
FILE_DAMAGED_ARCHIVE = Kind("file:damaged-archive", "An archive is damaged or cut short and could not be read whole")
FILE_DAMAGED_DOCUMENT = Kind("file:damaged-document", "A document is damaged and could only be read in part")
FILE_DDE = Kind("file:dde", "A document gets data from another program, which may run commands (DDE)")
FILE_DEFAULT_PASSWORD = Kind("file:default-password", "A workbook is encrypted with Excel's default password")
FILE_DOCUMENT_PASSWORD = Kind("file:document-password", "An encrypted document; the message contains its password")
FILE_DOUBLE_EXTENSION = Kind("file:double-extension", "Attachment has a misleading double extension")
FILE_EICAR = Kind("file:eicar", "A file is the EICAR antivirus test file")
FILE_EMBEDDED_OBJECT = Kind("file:embedded-object", "A document contains an embedded file or object")
FILE_ENCRYPTED_ARCHIVE = Kind("file:encrypted-archive", "An archive is encrypted and could not be read")
FILE_ENCRYPTED_ARCHIVE_OPENED = Kind(
    "file:encrypted-archive-opened", "An encrypted archive; the message contains its password"
)
FILE_ENCRYPTED_DOCUMENT = Kind(
    "file:encrypted-document", "A document is encrypted, and no password in the message opens it"
)
FILE_EQUATION_EDITOR = Kind("file:equation-editor", "An RTF document contains an object for the old equation editor")
FILE_EXCEL4_MACRO = Kind("file:excel4-macro", "A workbook contains Excel 4.0 macros")
FILE_EXECUTABLE = Kind("file:executable", "Attachment is a program")
FILE_HTML_CLIPBOARD_COMMAND = Kind(
    "file:html-clipboard-command", "An attached page puts a command on the clipboard for the reader to run (ClickFix)"
)
FILE_HTML_FORM = Kind("file:html-form", "An attached page contains a form")
FILE_HTML_PASSWORD_FORM = Kind("file:html-password-form", "An attached page asks for a password")
FILE_HTML_REDIRECT = Kind("file:html-redirect", "An attached page redirects to another one by itself")
FILE_HTML_SCRIPT = Kind("file:html-script", "An attached page runs a script")
FILE_HTML_SMUGGLING = Kind("file:html-smuggling", "A page assembles a file by script and saves it (HTML smuggling)")
FILE_HTML_HIDDEN_REDIRECT = Kind("file:html-hidden-redirect", "An attached page hides the address that it leads to")
FILE_HTML_OBFUSCATED = Kind("file:html-obfuscated", "The script of an attached page is made unreadable on purpose")
FILE_HTML_HIDES_SOURCE = Kind(
    "file:html-hides-source", "An attached page keeps its reader from looking at its source, or looks for an analysis"
)
FILE_HTML_SENDS_INPUT = Kind(
    "file:html-sends-input", "A script of an attached page sends what is typed into it to a server"
)
FILE_HTML_UNFINISHED = Kind("file:html-unfinished", "A script of an attached page could not be followed to its end")
FILE_HTML_WRITTEN_PAGE = Kind("file:html-written-page", "A page hides another page in a script that writes it")
FILE_INSTALLER = Kind("file:installer", "Attachment is an installer")
FILE_MACRO = Kind("file:macro", "A document contains macros")
FILE_MACRO_AUTORUN = Kind("file:macro-autorun", "A macro runs by itself when the document is opened or used")
FILE_MACRO_CALL = Kind("file:macro-call", "A macro starts programs, downloads files or reaches outside its document")
FILE_PDF_EMBEDDED_FILE = Kind("file:pdf-embedded-file", "A PDF contains an embedded file")
FILE_PDF_JAVASCRIPT = Kind("file:pdf-javascript", "A PDF contains JavaScript")
FILE_PDF_LAUNCH = Kind("file:pdf-launch", "A PDF starts a program")
FILE_PDF_OPEN_ACTION = Kind("file:pdf-open-action", "A PDF performs an action when it is opened")
FILE_PDF_SUBMIT_FORM = Kind("file:pdf-submit-form", "A PDF sends form data to a server")
FILE_PROGRAM_ACTION = Kind("file:program-action", "A document starts a program when it is clicked or touched")
FILE_REMOTE_OBJECT = Kind("file:remote-object", "A document loads an object from another server when opened")
FILE_REMOTE_TEMPLATE = Kind("file:remote-template", "A document loads its template from another server")
FILE_RIGHT_TO_LEFT_NAME = Kind("file:right-to-left-name", "A right-to-left override in a file name hides its extension")
FILE_RUNNABLE_NAME = Kind("file:runnable-name", "Attachment has an executable file name")
FILE_SHORTCUT_COMMAND = Kind("file:shortcut-command", "A shortcut file runs a command")
FILE_CONNECTION_SETTINGS = Kind(
    "file:connection-settings", "A file sets up a connection through a server that it names"
)
FILE_SHORTCUT_TO_SHARE = Kind("file:shortcut-to-share", "A shortcut file leads to a file on another computer")
FILE_SVG_SCRIPT = Kind("file:svg-script", "An attached picture (SVG) runs a script")
FILE_TYPE_MISMATCH = Kind("file:type-mismatch", "A file's content does not match its file extension")
FILE_UNREADABLE = Kind("file:unreadable", "A file is not what its name says and could not be read")
FILE_XML_ENTITY_MARKUP = Kind("file:xml-entity-markup", "An attached page or picture hides markup in entities")
FILE_XML_SCRIPT = Kind("file:xml-script", "An attached XML file runs a script")
FILE_XML_TRANSFORM = Kind(
    "file:xml-transform", "A style sheet inside an attached XML file or from a server turns it into a page (XSLT)"
)
FILE_YARA = Kind("file:yara", "A file matches a YARA rule of the operator")

# HTML that acts, which no mail program should run.
HTML_BASE = Kind("html:base", "HTML changes where relative links lead (base)")
HTML_BLOB_LINK = Kind("html:blob-link", "A link leads to a document that a script made (blob:)")
HTML_CSS_SCRIPT = Kind("html:css-script", "A style sheet runs code (expression, behavior, binding)")
HTML_DATA_LINK = Kind("html:data-link", "A link carries a whole document inside (data:)")
HTML_EVENT_HANDLER = Kind("html:event-handler", "HTML runs a script on an event (onclick, onerror, …)")
HTML_FILE_LINK = Kind("html:file-link", "A link leads to a file share (file:)")
HTML_FORM = Kind("html:form", "HTML contains a form")
HTML_FRAME = Kind("html:frame", "HTML shows another page in a frame")
HTML_IN_HEADER = Kind("html:in-header", "A header field or file name contains active HTML")
HTML_LATENT_SCRIPT = Kind("html:latent-script", "HTML contains a disguised script that rewriting would set free")
HTML_META_REFRESH = Kind("html:meta-refresh", "HTML redirects to another page by itself")
HTML_OBJECT = Kind("html:object", "HTML embeds an object, applet or plug-in")
HTML_PASSWORD_FIELD = Kind("html:password-field", "HTML asks for a password")
HTML_PROTOCOL_LINK = Kind("html:protocol-link", "A link starts a local program (ms-msdt:, search-ms:, …)")
HTML_SCRIPT = Kind("html:script", "HTML contains a script")
HTML_SCRIPT_LINK = Kind("html:script-link", "A link runs a script (javascript:, vbscript:)")
HTML_SVG_SCRIPT = Kind("html:svg-script", "An SVG picture runs a script")
HTML_SYSTEM_LINK = Kind("html:system-link", "A link hands a file to a program of the system (search-ms:, ms-msdt:, …)")
HTML_UNDECLARED = Kind("html:undeclared", "A part declared as plain text contains HTML")
HTML_WEBMAIL_ATTACK = Kind("html:webmail-attack", "The message tries to run a script in the reader's webmail")

# MIME: faults, and forms that mail programs read differently.
MIME_BARE_CR = Kind("mime:bare-cr", "A bare carriage return stands where it can change the structure")
MIME_BARE_LF = Kind("mime:bare-lf", "The header section mixes two kinds of line ends")
MIME_BINHEX = Kind("mime:binhex", "Text contains a BinHex file")
MIME_BOUNDARY_PREFIX = Kind(
    "mime:boundary-prefix", "A line starts with a boundary and continues; some mail programs take it for one"
)
MIME_BROKEN_BASE64 = Kind("mime:broken-base64", "Base64 content is broken; mail programs decode it differently")
MIME_BROKEN_BINHEX = Kind("mime:broken-binhex", "BinHex content is broken")
MIME_BROKEN_QUOTED_PRINTABLE = Kind("mime:broken-quoted-printable", "Quoted-printable content is broken")
MIME_BROKEN_TNEF = Kind("mime:broken-tnef", "A TNEF (winmail.dat) part is broken")
MIME_BROKEN_UUENCODE = Kind("mime:broken-uuencode", "Uuencoded content is broken")
MIME_BROKEN_YENC = Kind("mime:broken-yenc", "yEnc content is broken")
MIME_COMPETING_BOUNDARIES = Kind("mime:competing-boundaries", "A multipart names several boundaries")
MIME_DUPLICATE_HEADER = Kind("mime:duplicate-header", "A field occurs several times, with different values")
MIME_ENCODED_MULTIPART = Kind("mime:encoded-multipart", "A multipart as a whole is transfer-encoded")
MIME_EXTERNAL_BODY = Kind("mime:external-body", "A part's content is stored elsewhere (message/external-body)")
MIME_HEADER_CUT_SHORT = Kind("mime:header-cut-short", "A header section ends without an empty line")
MIME_HIDDEN_PART = Kind("mime:hidden-part", "Text contains what some mail programs read as a part of its own")
MIME_JUNK_IN_HEADER = Kind("mime:junk-in-header", "A header section contains a line that is no header field")
MIME_MISSING_BOUNDARY = Kind("mime:missing-boundary", "A multipart names no boundary")
MIME_MISSING_END = Kind("mime:missing-end", "A multipart has no end")
MIME_NO_HEADER = Kind("mime:no-header", "The message has no header field at all")
MIME_NO_PARTS = Kind("mime:no-parts", "A multipart has none of the parts that it announces")
MIME_NONSTANDARD_ENCODING = Kind("mime:nonstandard-encoding", "A transfer encoding that only some mail programs know")
MIME_NUL = Kind("mime:nul", "A header section or text contains a NUL byte")
MIME_ODD_CONTENT_TYPE = Kind("mime:odd-content-type", "A Content-Type that mail programs read differently")
MIME_ODD_DISPOSITION = Kind("mime:odd-disposition", "A Content-Disposition that mail programs read differently")
MIME_OUTSIDE_PARTS = Kind("mime:outside-parts", "A multipart has content before its first or after its last part")
MIME_PART_AFTER_END = Kind("mime:part-after-end", "A part stands after the end of its multipart")
MIME_PARTIAL = Kind("mime:partial", "The message is one fragment of a larger one (message/partial)")
MIME_SAME_BOUNDARY = Kind("mime:same-boundary", "A multipart uses the boundary of one that encloses it")
MIME_SEVERAL_NAMES = Kind("mime:several-names", "A part has several different file names")
MIME_TNEF = Kind("mime:tnef", "A part is a TNEF (winmail.dat) container")
MIME_UNDECLARED_ENCODING = Kind("mime:undeclared-encoding", "Content looks transfer-encoded but is not declared so")
MIME_UNKNOWN_ENCODING = Kind("mime:unknown-encoding", "A transfer encoding has an unknown name")
MIME_UUENCODE = Kind("mime:uuencode", "Text contains a uuencoded file")
MIME_YENC = Kind("mime:yenc", "Text contains a yEnc file")

# Recipients
RECIPIENT_REPORT_MAILBOX = Kind("recipient:report-mailbox", "Every recipient is a mailbox that takes reports")

# Composites: findings that mean more together than their sum (`composites.toml`).
COMPOSITE_ADDRESS_CARRIED_AWAY = Kind(
    "composite:address-carried-away", "A link away from the sender carries the recipient's address"
)
COMPOSITE_BRAND_ON_FREE_PAGE = Kind(
    "composite:brand-on-free-page", "Uses a company's name, and links or pictures are at a free service"
)
COMPOSITE_HIDDEN_LURE = Kind("composite:hidden-lure", "A lure hides where its link leads, or stands on a free page")
COMPOSITE_NOTE_TO_STRANGERS = Kind(
    "composite:note-to-strangers", "A line to nobody in particular, with a link to a free page"
)
COMPOSITE_PRIZE_SUM = Kind("composite:prize-sum", "Offers a prize, with a sum of money in the subject")
COMPOSITE_REPLIES_FROM_NOBODY = Kind(
    "composite:replies-from-nobody", "Names no recipient, and answers go to another domain"
)

# Limits: something was not read, because a budget ran out or it could not be read at all.
LIMIT_ADDRESSES = Kind("limit:addresses", "An address field has more addresses than are read")
LIMIT_ALTERNATIVES = Kind("limit:alternatives", "There are more plausible readings of the message than are tried")
LIMIT_ANTIVIRUS = Kind("limit:antivirus", "The antivirus did not answer")
LIMIT_ARCHIVE_DEPTH = Kind("limit:archive-depth", "Archives are nested too deep to be read completely")
LIMIT_ARCHIVE_FILES = Kind("limit:archive-files", "An archive contains more files than are read")
LIMIT_ARCHIVE_METHOD = Kind(
    "limit:archive-method", "An archive or container has a format or method that cannot be read"
)
LIMIT_ARCHIVE_RATIO = Kind("limit:archive-ratio", "An archive or picture expands too much to be read completely")
LIMIT_ARCHIVE_SIZE = Kind("limit:archive-size", "The unpacked files are larger than is read")
LIMIT_BOUNDARIES = Kind("limit:boundaries", "The message has more possible boundary lines than are looked at")
LIMIT_DECODED_SIZE = Kind("limit:decoded-size", "The decoded parts together are larger than is read")
LIMIT_DEFECTS = Kind("limit:defects", "The message has more defects than are listed")
LIMIT_DEPTH = Kind("limit:depth", "The message is nested deeper than is read")
LIMIT_ENCODED_WORDS = Kind("limit:encoded-words", "A header field has more encoded words than are decoded")
LIMIT_ENCRYPTED = Kind("limit:encrypted", "Content is encrypted for its recipient and could not be read")
LIMIT_HEADER_FIELDS = Kind("limit:header-fields", "A header section has more fields than are read")
LIMIT_HEADER_SIZE = Kind("limit:header-size", "A header section or field is longer than is read")
LIMIT_HTML_ATTRIBUTES = Kind("limit:html-attributes", "An HTML element has more attributes than are read")
LIMIT_HTML_DEPTH = Kind("limit:html-depth", "HTML is nested deeper than is read")
LIMIT_HTML_PARTS = Kind("limit:html-parts", "HTML contains more documents, nodes or styles than are read")
LIMIT_HTML_SIZE = Kind("limit:html-size", "HTML is longer or has more tags than are read")
LIMIT_IMAGE_SIZE = Kind(
    "limit:image-size",
    "Pictures or pages were not searched for QR codes: too large, too many, or of a format without decoder",
)
LIMIT_LINKS = Kind("limit:links", "The message has more links than are looked at")
LIMIT_PARTS = Kind("limit:parts", "The message has more parts than are read")
LIMIT_RULE_FAILED = Kind("limit:rule-failed", "A rule of the operator could not be evaluated")
LIMIT_TEXT_SIZE = Kind("limit:text-size", "A text is longer than is read")
LIMIT_TEXT_FILE = Kind("limit:text-file", "Text files are longer, or more, than are read")

BY_ID: dict[str, Kind] = {kind.id: kind for kind in tuple(vars().values()) if isinstance(kind, Kind)}
TITLES: dict[str, str] = {kind.id: kind.title for kind in BY_ID.values()}


def list_kinds(*beginnings: str) -> tuple[Kind, ...]:
    """Return the kinds whose ids begin so."""
    return tuple(kind for kind in BY_ID.values() if kind.id.startswith(beginnings))
