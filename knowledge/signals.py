"""What knowledge tells whoever listens; it knows none of them."""

from typing import Final

from django.dispatch import Signal

run_folded: Final = Signal()  # project_id, run_id: its chain was derived anew
