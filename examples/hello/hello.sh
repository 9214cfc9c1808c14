#!/bin/sh
# One copy runs on every slot. RANK and WORLD_SIZE are the names that torchrun uses.
echo "INFO: rank $RANK of $WORLD_SIZE: trial $DET_TRIAL_ID of experiment $DET_EXPERIMENT_ID"
