import pytest
from django.db import connection


@pytest.mark.django_db
def test_database():
    with connection.cursor() as c:
        c.execute("select version()")
        assert "PostgreSQL" in c.fetchone()[0]
