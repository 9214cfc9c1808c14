// The administrators' notice to everybody, above every page.

import { get } from "../lib/api";
import { millis, now } from "../lib/format";
import { useLoad } from "../lib/load";
import type { ClusterMessage } from "../lib/types";
import { here } from "../lib/url";
import { Icon } from "../parts";

export function Banner() {
    const load = useLoad((abort) => {
        void here.value.path; // looked at again with every page
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
