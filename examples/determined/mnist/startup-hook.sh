# Runs once on each machine, before the entrypoint and in its folder. If it fails, the trial fails.
set -eu
echo "drawing the digits"
python3 digits.py 2000 1 train.bin
python3 digits.py 500 2 test.bin
