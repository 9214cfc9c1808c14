// The cluster message of the administrators, above every page.

import { computed } from "@preact/signals";
import { get } from "../lib/api";
import { millis, now } from "../lib/format";
import { useLoad } from "../lib/load";
import { isAdmin } from "../lib/session";
import type { ClusterMessage } from "../lib/types";
import { currentAddress } from "../lib/url";
import { Icon } from "../parts";

const path = computed(() => currentAddress.value.path);

export function Banner() {
    const load = useLoad((abort) => {
        void path.value; // loads the message again on every page
        return get<{ clusterMessage?: ClusterMessage | null }>(isAdmin() ? "/master/cluster_message" : "/master", {}, abort);
    }, { topics: ["audit"], auditObjects: ["master"] });
    const notice = load.data.value?.clusterMessage;
    if (!notice?.message || millis(notice.startTime) > now.peek()) return null;
    return (
        <p class="banner" role="status">
            <Icon name="warning" label="Cluster message" /> {notice.message}
        </p>
    );
}
