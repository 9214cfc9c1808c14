#!/bin/sh
# One copy runs on every slot; ranks are told apart by the names torchrun uses.
echo "INFO: rank $RANK of $WORLD_SIZE: trial $DET_TRIAL_ID of experiment $DET_EXPERIMENT_ID"
