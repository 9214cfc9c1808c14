// The administrators' notice to everybody, above every page.

import { computed } from "@preact/signals";
import { get } from "../lib/api";
import { millis, now } from "../lib/format";
import { useLoad } from "../lib/load";
import type { ClusterMessage } from "../lib/types";
import { here } from "../lib/url";
import { Icon } from "../parts";

const path = computed(() => here.value.path);

export function Banner() {
    const load = useLoad((abort) => {
        void path.value; // looked at again with every page
        return get<{ clusterMessage?: ClusterMessage | null }>("/master/cluster_message", {}, abort);
    }, { topics: ["audit"], of: ["master"] });
    const notice = load.data.value?.clusterMessage;
    if (!notice?.message || millis(notice.startTime) > now.peek()) return null;
    return (
        <p class="banner" role="status">
            <Icon name="warning" label="Notice" /> {notice.message}
        </p>
    );
}
