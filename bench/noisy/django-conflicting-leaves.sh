# command: python manage.py test -v 3
# where: end
# error: Conflicting migrations detected
mkdir -p shop/migrations; touch shop/__init__.py shop/migrations/__init__.py
cat > manage.py <<'PY'
import logging, sys
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "shop"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}},
    LOGGING={"version": 1, "handlers": {"out": {"class": "logging.StreamHandler"}},
             "root": {"handlers": ["out"], "level": "DEBUG"}},
)
execute_from_command_line(sys.argv)
PY
migration() {
  printf 'from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n' > shop/migrations/$1.py
  printf "    dependencies = [%s]\n    operations = []\n" "$2" >> shop/migrations/$1.py
}
migration 0001_initial ""
before=0001_initial
for n in $(seq 1002 1070); do migration ${n}_step "('shop', '$before')"; before=${n}_step; done
set -x
python manage.py migrate -v 3
python manage.py showmigrations -v 2
python manage.py migrate -v 3
{ set +x; } 2> /dev/null
migration 1070_coupons "('shop', '1069_step')"
set -x
python manage.py migrate -v 3
