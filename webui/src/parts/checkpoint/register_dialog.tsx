// The dialog that registers a checkpoint as a version of a model.

import { useSignal } from "@preact/signals";
import { get, send } from "../../lib/api";
import { number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { toast } from "../../lib/toasts";
import type { Checkpoint, Model } from "../../lib/types";
import { Field, TextInput } from "../form/field";
import { FormDialog } from "../form/form_dialog";

export function RegisterDialog(props: { checkpoint: Checkpoint; workspaceId: number; onClose: () => void }) {
    const { checkpoint, workspaceId, onClose } = props;
    const models = useLoad((abort) => get<{ models: Model[] }>("/models", { limit: 200 }, abort));
    const name = useSignal("");
    const comment = useSignal("");
    const model = name.value.trim();
    const register = async () => {
        if (!models.data.value?.models.some((one) => one.name === model))
            await send("POST", "/models", { name: model, workspaceId });
        const body = { checkpointUuid: checkpoint.uuid, comment: comment.value };
        const path = `/models/${encodeURIComponent(model)}/versions`;
        const created = await send<{ modelVersion: { version: number } }>("POST", path, body);
        toast(`Registered as version ${created.modelVersion.version} of ${model}`, "good");
    };
    return (
        <FormDialog
            title="Register as a model version"
            submitLabel="Register"
            submit={register}
            onClose={onClose}
        >
            <p class="muted">
                Checkpoint <span class="mono">{checkpoint.uuid}</span>, step{" "}
                {number(checkpoint.stepsCompleted ?? 0)}
            </p>
            <Field label="Model" help="A new name creates a new model.">
                <input
                    class="input"
                    list="model-names"
                    required
                    value={name.value}
                    onInput={(event) => (name.value = event.currentTarget.value)}
                />
            </Field>
            <datalist id="model-names">
                {models.data.value?.models.map((one) => <option key={one.id} value={one.name} />)}
            </datalist>
            <Field label="Comment">
                <TextInput bind={comment} />
            </Field>
        </FormDialog>
    );
}
