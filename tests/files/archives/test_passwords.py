"""Which passwords a mail gives away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.archives.passwords import MAX_CANDIDATES, MAX_FAILURES, PasswordAttempts, PasswordCandidates
from gatepost.files.values import MAX_ATTEMPTS, UnpackBudget
from gatepost.mail.message import Message, Part, Text


def candidates(text: str, subject: str = "", name: str = "a.zip") -> list[str]:
    part = Part("2", names=(name,), content=b"x")
    return list(PasswordCandidates(Message(subject=subject, texts=(Text("1", "plain", text),), parts=(part,))))


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("Your invoice is attached, the password is 7361.", "7361"),
        ("Archive password - Inv-2024!", "Inv-2024!"),
        ("PW: x9", "x9"),
        ("Das Passwort lautet: Xy9!k-2.", "Xy9!k-2"),
        ("Kennwort \"Haus am See\" oder 'Seehaus'", "Seehaus"),
        ("mot de passe : « secret7 »", "secret7"),
        ("La contraseña es 99-AB", "99-AB"),
        ("a senha do arquivo é 4455", "4455"),
        ("Wachtwoord: tulp", "tulp"),
        ("Hasło do pliku: kot12", "kot12"),
        ("Пароль к архиву: qwe123", "qwe123"),
        ("解压密码：8899abc", "8899abc"),
        ("パスワードは「sakura5」です", "sakura5"),
        ("비밀번호: 0420", "0420"),
        ("Use 4455 as the password to open it", "4455"),
        ("pass:word:1", "word:1"),
        ("See attached.\n\n6620", "6620"),
        ("nothing at all", "infected"),
    ],
)
def test_the_password_is_among_the_candidates(text: str, password: str) -> None:
    assert password in candidates(text)


def test_what_follows_the_word_comes_before_what_everybody_takes() -> None:
    found = candidates("password: 7361")
    assert found.index("7361") < found.index("infected")


def test_subject_and_name_count() -> None:
    assert "8812" in candidates("", subject="Order, code 8812")
    assert "20231" in candidates("", name="scan_20231.zip")


@given(st.text(alphabet="password: 'ab1\n\u5bc6\u7801", max_size=3000), st.text(max_size=200))
def test_there_are_never_many(text: str, subject: str) -> None:
    found = candidates(text, subject)
    assert len(found) <= MAX_CANDIDATES
    assert len(found) == len(set(found))


def test_what_opened_one_entry_is_tried_first_on_the_next() -> None:
    budget = UnpackBudget()
    ring = PasswordAttempts(("a", "b", "c"), budget)
    assert ring.unlock(lambda word: word if word == "c" else None) == "c"
    assert ring.unlock(lambda word: word) == "c"
    assert budget.attempts == 4


def test_a_ring_gives_up() -> None:
    tried: list[str] = []
    ring = PasswordAttempts(("a", "b"), UnpackBudget())
    for _ in range(MAX_FAILURES + 5):
        assert ring.unlock(tried.append) is None
    assert len(tried) == 2 * MAX_FAILURES


def test_attempts_have_a_budget() -> None:
    budget = UnpackBudget()
    ring = PasswordAttempts(map(str, range(MAX_ATTEMPTS)), budget, cost=100)
    assert ring.unlock(lambda _: None) is None
    assert budget.attempts == MAX_ATTEMPTS
