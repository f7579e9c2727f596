"""The names that are imitated, country by country: what the files state, and what is found with it."""

from itertools import combinations
from pathlib import Path

import pytest
from tests.checks.readings import find_strengths, mail_from

from gatepost.checks import known_names as known
from gatepost.checks.sender.lookalikes import find_known_imitation
from gatepost.checks.sender.mailboxes import brand_name
from gatepost.names import is_public_suffix, normal_domain, org_domain, public_suffix

FILES = known.read_brand_files()
COUNTRIES = (
    "de at ch fr be nl lu gb ie es pt it pl cz sk hu ro bg gr se no dk fi ee lv lt ua ru tr il sa ae in id my th vn kr "
    "cn tw hk sg jp au nz us ca mx br ar cl co pe za ng hr ir eg ma dz"
).split()
# Owners who have several entries: each line holds the first names of the entries that may state the same domains.
OWNERS = [
    frozenset(line.split(" | ")) for line in Path(__file__).with_name("brand_owners.txt").read_text().splitlines()
]


# Services that write from below the name of a company with other customers.
BELOW_OTHERS = ("pagseguro.uol.com.br",)


def list_entries() -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (country, names, tuple(domains))
        for country, stated in FILES.items()
        for section in (stated.brands, stated.ordinary)
        for names, domains in section.items()
    ]


def measure(name: str, domain: str) -> list[float]:
    """Return how strongly a display name accuses a sender of that domain."""
    reading = mail_from(f"info@{domain}", name)
    return find_strengths(brand_name, reading)


def test_files_are_those_of_the_countries() -> None:
    assert set(FILES) == {"international", *COUNTRIES}
    assert len(known.BRANDS) >= 2_800


@pytest.mark.parametrize("country", FILES)
def test_every_file_names_at_least_eight(country: str) -> None:
    stated = FILES[country]
    names = [name for entry in (*stated.brands, *stated.ordinary) for name in entry.split(" / ")]
    assert len(names) >= 8
    assert len(names) == len(set(names))
    assert all(name == name.strip() and known.list_words(name) for name in names)


def test_every_domain_is_one_that_somebody_registered() -> None:
    """A domain is a registered name or a whole suffix, in normal form; its ending exists."""
    for country, names, domains in list_entries():
        assert domains, (country, names)
        for domain in domains:
            name = domain.removesuffix(".*")
            assert name == normal_domain(name), (names, domain)
            if name != domain:
                assert name.replace("-", "").isalnum(), (names, domain)
            else:
                suffix = public_suffix(domain)
                assert is_public_suffix(suffix), (names, domain)
                assert domain in (suffix, org_domain(domain), *BELOW_OTHERS), (names, domain)


def test_no_domain_has_two_owners() -> None:
    """Whoever states a domain that another entry has must say that both are one owner's, or share the name."""
    stated_by: dict[str, set[str]] = {}
    for _, names, domains in list_entries():
        for domain in domains:
            if not is_public_suffix(domain):
                stated_by.setdefault(domain, set()).add(names.split(" / ")[0])
    for domain, entries in stated_by.items():
        for pair in combinations(sorted(entries), 2):
            assert any(owner.issuperset(pair) for owner in OWNERS), (domain, pair)


def test_owners_are_entries() -> None:
    entries = {names.split(" / ")[0] for _, names, _ in list_entries()}
    assert all(len(owner) > 1 and owner <= entries for owner in OWNERS)


# One name, one of its own domains, and where it is known.
IMITATED = [
    ("de", "Sparkasse Kundenservice", "sparkasse.de"),
    ("de", "Commerzbank", "commerzbank.de"),
    ("de", "Techniker Krankenkasse", "tk.de"),
    ("de", "Deutsche Rentenversicherung", "deutsche-rentenversicherung.de"),
    ("at", "FinanzOnline", "bmf.gv.at"),
    ("at", "Österreichische Post", "post.at"),
    ("at", "ÖGK", "oegk.at"),
    ("ch", "Schweizerische Post", "post.ch"),
    ("ch", "TWINT Support", "twint.ch"),
    ("fr", "Crédit Mutuel", "creditmutuel.fr"),
    ("fr", "Mondial Relay", "mondialrelay.fr"),
    ("fr", "URSSAF", "urssaf.fr"),
    ("be", "Belfius", "belfius.be"),
    ("be", "bpost", "bpost.be"),
    ("nl", "Belastingdienst", "belastingdienst.nl"),
    ("nl", "Bol.com", "bol.com"),
    ("lu", "LuxTrust", "luxtrust.com"),
    ("gb", "Royal Mail", "royalmail.com"),
    ("gb", "Octopus Energy", "octopus.energy"),
    ("gb", "Monzo", "monzo.com"),
    ("ie", "Bank of Ireland", "boi.com"),
    ("es", "Banco Santander", "santander.es"),
    ("es", "Bankinter", "bankinter.com"),
    ("pt", "Caixa Geral de Depósitos", "cgd.pt"),
    ("it", "PostePay", "poste.it"),
    ("it", "INPS", "inps.it"),
    ("pl", "PKO Bank Polski", "pkobp.pl"),
    ("pl", "InPost", "inpost.pl"),
    ("cz", "Česká spořitelna", "csas.cz"),
    ("sk", "Tatra banka", "tatrabanka.sk"),
    ("hu", "OTP Bank", "otpbank.hu"),
    ("ro", "Banca Transilvania", "bancatransilvania.ro"),
    ("bg", "Банка ДСК", "dskbank.bg"),
    ("bg", "Български пощи", "bgpost.bg"),
    ("gr", "ΕΘΝΙΚΗ ΤΡΑΠΕΖΑ", "nbg.gr"),
    ("gr", "Τράπεζα Πειραιώς", "piraeusbank.gr"),
    ("se", "Skatteverket", "skatteverket.se"),
    ("no", "Vipps", "vipps.no"),
    ("dk", "MitID", "mitid.dk"),
    ("fi", "Verohallinto", "vero.fi"),
    ("ee", "Omniva", "omniva.ee"),
    ("lv", "Latvijas Pasts", "pasts.lv"),
    ("lt", "Lietuvos paštas", "post.lt"),
    ("ua", "ПриватБанк", "privatbank.ua"),
    ("ua", "Нова пошта", "novaposhta.ua"),
    ("ru", "Сбербанк", "sberbank.ru"),
    ("ru", "Почта России", "pochta.ru"),
    ("tr", "Türkiye İş Bankası", "isbank.com.tr"),
    ("il", "בנק הפועלים", "bankhapoalim.co.il"),
    ("il", "דואר ישראל", "israelpost.co.il"),
    ("sa", "مصرف الراجحي", "alrajhibank.com.sa"),
    ("sa", "البنك الأهلي السعودي", "alahli.com"),
    ("ae", "بريد الإمارات", "emiratespost.ae"),
    ("in", "State Bank of India", "sbi.co.in"),
    ("in", "भारतीय स्टेट बैंक", "sbi.co.in"),
    ("id", "Bank Mandiri", "bankmandiri.co.id"),
    ("my", "Maybank2u", "maybank2u.com.my"),
    ("th", "ธนาคารกสิกรไทย", "kasikornbank.com"),
    ("th", "ไปรษณีย์ไทย แจ้งเตือน", "thailandpost.co.th"),
    ("vn", "Vietcombank", "vietcombank.com.vn"),
    ("kr", "국세청 알림", "nts.go.kr"),
    ("kr", "KB국민은행", "kbstar.com"),
    ("cn", "中国工商银行", "icbc.com.cn"),
    ("cn", "支付宝客服", "alipay.com"),
    ("tw", "中華郵政通知", "post.gov.tw"),
    ("tw", "國泰世華銀行", "cathaybk.com.tw"),
    ("hk", "香港郵政", "hongkongpost.hk"),
    ("sg", "DBS Bank", "dbs.com"),
    ("jp", "三井住友カード", "smbc-card.com"),
    ("jp", "三井住友カード株式会社", "vpass.ne.jp"),
    ("jp", "【重要】楽天カード株式会社", "rakuten-card.co.jp"),
    ("jp", "ＪＣＢカード", "jcb.co.jp"),
    ("jp", "イオンカードからのお知らせ", "aeon.co.jp"),
    ("jp", "エポスカード", "eposcard.co.jp"),
    ("jp", "アメリカン・エキスプレス・カード", "americanexpress.com"),
    ("jp", "えきねっと", "eki-net.com"),
    ("jp", "メルカリ事務局", "mercari.jp"),
    ("jp", "PayPayカード", "paypay-card.co.jp"),
    ("jp", "ヤマト運輸株式会社", "kuronekoyamato.co.jp"),
    ("jp", "佐川急便", "sagawa-exp.co.jp"),
    ("jp", "ﾔﾏﾄ運輸", "kuronekoyamato.co.jp"),
    ("jp", "日本郵便", "japanpost.jp"),
    ("jp", "国税庁", "nta.go.jp"),
    ("jp", "三 井 住 友 銀 行", "smbc.co.jp"),
    ("au", "Australian Taxation Office", "ato.gov.au"),
    ("nz", "Kiwibank", "kiwibank.co.nz"),
    ("us", "Navy Federal", "navyfederal.org"),
    ("ca", "Canada Revenue Agency", "cra-arc.gc.ca"),
    ("mx", "Banorte", "banorte.com"),
    ("br", "PagSeguro", "pagseguro.com.br"),
    ("ar", "AFIP", "afip.gob.ar"),
    ("cl", "BancoEstado", "bancoestado.cl"),
    ("co", "Bancolombia", "bancolombia.com.co"),
    ("za", "Capitec", "capitecbank.co.za"),
    ("ng", "Zenith Bank", "zenithbank.com"),
    ("hr", "Zagrebačka banka", "zaba.hr"),
    ("hr", "Hrvatska pošta", "posta.hr"),
    ("ir", "شرکت ملی پست ایران", "post.ir"),
    ("ir", "دیجی‌کالا", "digikala.com"),
    ("ir", "بانک ملی ایران", "bmi.ir"),
    ("eg", "البريد المصري", "egyptpost.org"),
    ("ma", "بريد المغرب", "poste.ma"),
    ("dz", "Algérie Poste", "poste.dz"),
    ("pe", "SUNAT", "sunat.gob.pe"),
    ("vn", "VETC", "vetc.com.vn"),
    ("vn", "Bưu điện Việt Nam", "vnpost.vn"),
    ("no", "Bring", "bring.com"),
    ("dk", "GLS Denmark", "gls-group.com"),
    ("dk", "Penneo", "penneo.com"),
    ("de", "WEB.DE Postfach", "sicher.web.de"),
    ("pl", "PGE Obrót", "pge.pl"),
    ("ru", "Кинопоиск", "kinopoisk.ru"),
    ("ru", "Контур Диадок", "kontur.ru"),
    ("sa", "هيئة الزكاة والضريبة والجمارك", "zatca.gov.sa"),
    ("il", "המוסד לביטוח לאומי", "btl.gov.il"),
    ("tr", "HGS Bilgilendirme", "ptt.gov.tr"),
    ("th", "สำนักงานประกันสังคม", "sso.go.th"),
    ("cn", "菜鸟驿站", "cainiao.com"),
    ("kr", "가비아 알림", "gabia.com"),
]


def test_names_are_of_many_countries() -> None:
    assert len(IMITATED) >= 60
    assert {country for country, _, _ in IMITATED} == set(COUNTRIES)


@pytest.mark.parametrize(("name", "own"), [(name, own) for _, name, own in IMITATED])
def test_forged_name_is_found_and_the_own_domain_is_not(name: str, own: str) -> None:
    assert max(measure(name, "example.org")) == 1.0
    assert measure(name, own) == []
    assert measure(name, f"mail.{own}") == []


# Names with several owners: each of them writes in its own name.
@pytest.mark.parametrize(
    ("name", "domains"),
    [
        ("Hermes", ["hermes.com", "myhermes.de"]),
        ("Coop", ["coop.ch", "coop.it", "coop.se", "coop.dk", "coop.no", "coop.co.uk", "coop.nl"]),
        ("NAV", ["nav.no", "nav.gov.hu"]),
        ("TSB", ["tsb.co.uk", "tsb.co.nz"]),
        ("JCB", ["jcb.co.jp", "jcb.com"]),
        ("KEPCO", ["kepco.co.kr", "kepco.co.jp"]),
        ("Postbank", ["postbank.de", "postbank.bg"]),
        ("Woolworths", ["woolworths.com.au", "woolworths.co.za"]),
        ("Telkom", ["telkom.co.id", "telkom.co.za"]),
        ("Raiffeisen", ["raiffeisen.ch", "raiffeisen.lu", "rb.cz"]),
        ("EVN", ["evn.com.vn", "evn.at"]),
        ("Nationwide", ["nationwide.co.uk", "nationwide.com"]),
        ("ANSES", ["anses.gob.ar", "anses.fr"]),
        ("Fastweb", ["fastweb.it", "fastweb.com"]),
        ("ICBC", ["icbc.com.cn", "icbc.com"]),
        ("myGov", ["my.gov.au", "mygov.in"]),
        ("RealMe", ["realme.govt.nz", "realme.com"]),
        ("Post Office", ["postoffice.co.uk", "postoffice.co.za"]),
        ("Avito", ["avito.ru", "avito.ma"]),
        ("Banque Populaire", ["banquepopulaire.fr", "gbp.ma"]),
        ("CNAS", ["cnas.ro", "cnas.dz"]),
        ("PTT", ["ptt.gov.tr", "pttplc.com"]),
        ("Agencia Tributaria", ["agenciatributaria.gob.es", "atc.gencat.cat"]),
    ],
)
def test_shared_name_is_that_of_every_owner(name: str, domains: list[str]) -> None:
    assert all(measure(name, domain) == [] for domain in domains)
    assert measure(name, "example.org")


# Words, places and people: such a name does not accuse where anything else stands beside it.
SHARED = (
    "Hermes, Orange, Sparda, Target, Chase, Visa, Santander, Sparkasse, Volksbank, Raiffeisen, Discover, Apple, Meta, "
    "Swiss, Saturn, Elster, Ricardo, Halifax, Boots, Argos, Currys, Iberia, Aruba, Allegro, Heureka, Speedy, Swish, "
    "Posten, Bitė, Maxima, Ozon, Grab, Jio, IndiGo, Public Bank, Maxis, Coles, Vanguard, Robinhood, Peacock, Vivo, "
    "Tangerine, Ripley, Checkers, Eurobank, Agribank, Generali, Nordstrom, Kroger, Mediolanum, Estafeta, Sahibinden, "
    "Fineco, Tikkie, An Post, Bring, Komplett, Seznam, Subito, Privy, Gusto, Zalo, Telemach, Navigo, AT&T"
)


@pytest.mark.parametrize("name", SHARED.split(", "))
def test_shared_or_common_name_does_not_accuse_beside_other_words(name: str) -> None:
    assert measure(f"{name} Gartenfreunde Weiler", "example.org") == []
    assert all(mention.brand.ordinary for mention in known.find_brands(name))


# "att" is a word of every second Swedish sentence, and the name of AT&T as it is compared.
def test_a_word_of_a_sentence_is_no_company() -> None:
    assert measure("Tack för att du handlar hos oss", "example.se") == []
    assert all(mention.brand.ordinary for mention in known.find_brands("Tack för att du handlar hos oss"))


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("Royal Bank of Scotland", "rbs.co.uk"),
        ("Garanti BBVA", "garantibbva.com.tr"),
        ("Permanent TSB", "permanenttsb.ie"),
        ("GLS Bank", "gls.de"),
    ],
)
def test_a_name_inside_a_longer_one_is_no_other_company(name: str, own: str) -> None:
    assert [mention.brand.name for mention in known.find_brands(name)] == [name]
    assert measure(name, own) == []
    assert [mention.brand.name for mention in known.find_brands(f"{name} PayPal")] == [name, "PayPal"]


# Inside a run of letters of a script without blanks.
@pytest.mark.parametrize(
    ("name", "strengths"),
    [
        ("京东客服", [1.0]),
        ("北京东路", []),  # a street in Beijing
        ("토스", [1.0]),
        ("토스트 가게", []),  # toast
        ("楽天", [1.0]),
        ("楽天家の会", []),  # optimists
        ("イオンサポート", [1.0]),
        ("マイナスイオン研究所", []),  # negative ions
        ("小米粥", []),  # millet porridge
        ("株式会社三菱UFJ銀行", [1.0]),
        ("JR東日本", [1.0]),
        ("XJR東日本", []),
        ("Amazonプライム", [1.0]),
        ("東京Tower", []),
        ("田中一郎", []),
        ("김철수", []),
        ("สมชาย ใจดี", []),
        ("יוסי כהן", []),
        ("محمد الرياض", []),
        ("Иван Почтальонов", []),
    ],
)
def test_names_within_a_run_of_letters(name: str, strengths: list[float]) -> None:
    assert measure(name, "example.org") == strengths


@pytest.mark.parametrize(
    "name", ["ＪＣＢカード", "ﾔﾏﾄ運輸", "ＰａｙＰａｙ銀行", "三井住友カード", "ΕΘΝΙΚΗ ΤΡΑΠΕΖΑ", "Сбербанк"]
)
def test_native_spelling_is_no_disguise(name: str) -> None:
    assert not any(mention.disguised for mention in known.find_brands(name))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Amazonプライム", ("amazon", "プライム")),
        ("ｶﾞｽ料金", ("ガス料金",)),
        ("국세청 알림", ("국세청", "알림")),
        ("أبـشـر", ("ابشر",)),
        ("שָׁלוֹם", ("שלום",)),
        ("भारतीय स्टेट", ("भारतीय", "स्टेट")),
        ("ไทย-Post", ("ไทย", "post")),
        ("Crédit Ünal", ("credit", "unal")),
    ],
)
def test_words_of_any_script(text: str, words: tuple[str, ...]) -> None:
    assert known.list_words(text) == words


# A name of one country is compared with domains more strictly: its letters stand in words of the others.
@pytest.mark.parametrize(
    "host",
    "benefits.com essential.org interactive.net career.com primary.io speedy-delivery.com mainpost.de easyparking.it "
    "timber.com strive.com satellite.de flexoffice.com autopassion.fr boconganh.vn".split(),
)
def test_ordinary_domains_imitate_nobody(host: str) -> None:
    assert find_known_imitation(host) is None


@pytest.mark.parametrize(
    ("host", "of"),
    [
        ("belastingdienst-betaling.xyz", "Belastingdienst"),
        ("supportblablacar.com", "BlaBlaCar"),
        ("bancolombla.com", "Bancolombia"),
        ("sparkasse-login.com", "Sparkasse"),
        ("smbccard-verify.top", "SMBC Card"),
    ],
)
def test_imitated_domains(host: str, of: str) -> None:
    assert (seen := find_known_imitation(host)) is not None
    assert seen.of == of


def test_mail_of_other_scripts_alone_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    find_at = known.BrandIndex._find_at

    def count(index: known.BrandIndex, joined: str, at: int, borders: tuple[int, ...]) -> known.Brand | None:
        looks.append(at)
        return find_at(index, joined, at, borders)

    monkeypatch.setattr(known.BrandIndex, "_find_at", count)
    for text in ("Ann Example", "Jörg Müller", "Ελένη Παππά", "Иван Иванов", "Your parcel is on its way – today"):
        known.find_brands.__wrapped__(text)
    assert looks == []
    known.find_brands.__wrapped__("ヤ" * 200)
    assert looks == list(range(199))  # one look at each place


def test_compiled_names_find_the_longest_at_the_first_place() -> None:
    pattern = known.compile_names(["pay", "paypal", "pal", "a.b"])
    assert [match.group() for match in pattern.finditer("xpaypalpaya.baxb")] == ["paypal", "pay", "a.b"]
