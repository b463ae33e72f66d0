#!/usr/bin/env bash
# Brings Spark 3.5 and the Hudi bundle (hudi_env.sh), then runs make_golden.py with the given arguments.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
jar="$(bash "$here/hudi_env.sh")"
exec "$here/../../var/hudi-env/bin/python" "$here/make_golden.py" --jar "$jar" "$@"
