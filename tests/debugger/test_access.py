"""Who may see what: sign-in links work once, and a stranger finds nothing."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from django.test import Client
from django.utils import timezone

from debugger.access import LINK_HOURS, get_project_for, get_run_for, is_link_used, make_sign_in_link, projects_for
from debugger.models import SignInLink
from tests.factories import make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_person("alice", make_project("alpha"))


def test_a_link_signs_in_once(alice: User, client: Client) -> None:
    """The link opens a session and leads to the runs; the second use is refused and says what to do."""
    path = make_sign_in_link(alice)
    assert not is_link_used(path)
    assert client.get(path).headers["Location"] == "/"
    assert client.get("/").headers["Location"] == "/alpha/runs/"
    assert is_link_used(path)
    other = Client()
    refused = other.get(path)
    assert refused.status_code == 410
    assert b"manage.py sign_in_link" in refused.content
    assert "sessionid" not in other.cookies


def test_an_old_link_is_refused(alice: User, client: Client) -> None:
    """A link is good for LINK_HOURS, used or not."""
    path = make_sign_in_link(alice)
    SignInLink.objects.update(created_at=timezone.now() - timedelta(hours=LINK_HOURS, seconds=1))
    assert is_link_used(path)
    assert client.get(path).status_code == 410
    assert SignInLink.objects.get().used_at is None


def test_looking_ahead_uses_nothing_up(alice: User, client: Client) -> None:
    """HEAD, and a browser that fetches ahead of a click, leave the link as it was."""
    path = make_sign_in_link(alice)
    assert client.head(path).status_code == 405
    assert client.get(path, headers={"Sec-Purpose": "prefetch;prerender"}).status_code == 503
    assert not is_link_used(path)


def test_a_guessed_link_is_refused(client: Client) -> None:
    """A token that was never given out signs nobody in."""
    assert client.get("/sign-in/guessed/").status_code == 410


def test_a_link_of_somebody_gone_is_refused(alice: User, client: Client) -> None:
    """A person made inactive is not let in by a link of before."""
    path = make_sign_in_link(alice)
    User.objects.update(is_active=False)
    assert client.get(path).status_code == 410


def test_the_token_is_not_kept(alice: User) -> None:
    """The database holds a hash: nobody signs in with what is in it."""
    token = make_sign_in_link(alice).rstrip("/").rsplit("/", 1)[-1]
    assert token.encode() not in bytes(SignInLink.objects.get().digest)


def test_sign_out_is_a_post(alice: User, client: Client) -> None:
    """Signing out ends the session, and no link or image can do it."""
    client.force_login(alice)
    assert client.get("/sign-out/").status_code == 405
    assert client.get("/alpha/runs/").status_code == 200
    assert client.post("/sign-out/").headers["Location"] == "/sign-in/"
    assert client.get("/alpha/runs/").status_code == 302


def test_a_stranger_finds_nothing(alice: User) -> None:
    """What a person is no member of looks exactly like what is not there."""
    beta = make_project("beta")
    send(beta, typical_run("r-1"))
    assert [project.slug for project in projects_for(alice)] == ["alpha"]
    for wanted in (lambda: get_project_for(alice, "beta"), lambda: get_run_for(alice, "beta", "r-1")):
        with pytest.raises(Http404) as refused:
            wanted()
        with pytest.raises(Http404) as unknown:
            get_project_for(alice, "nowhere")
        assert str(refused.value) == str(unknown.value)
    with pytest.raises(Http404):
        get_project_for(AnonymousUser(), "alpha")


def test_a_run_of_another_project_is_not_found_under_ones_own(alice: User) -> None:
    """A run id is looked up in the project of the address alone."""
    send(make_project("beta"), typical_run("r-1"))
    with pytest.raises(Http404):
        get_run_for(alice, "alpha", "r-1")


def test_somebody_without_a_project_is_told(client: Client) -> None:
    """A person of no project gets a page that says so."""
    client.force_login(make_person("bob"))
    assert b"member of no project" in client.get("/").content
