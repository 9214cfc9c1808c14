// The common parts. Larger ones, and those that few pages use, are imported from their own modules, so that a
// page loads only what it uses: charts, tables, logs, editors.

export { ActionButton, Button, LinkButton } from "./basic/button";
export { Copy, CopyAs } from "./basic/copy";
export { Dialog } from "./overlay/dialog";
export { Field, Search, Select, Switch, TextArea, TextInput } from "./form/field";
export { FormDialog } from "./form/form_dialog";
export { Icon, type IconName } from "./basic/icon";
export { copyItems, Menu, type MenuItem, Popover } from "./overlay/menu";
export { Bar, Progress, Spark } from "./basic/meter";
export { ActionBar, Ago, DueTime, Empty, ErrorBox, PageHead, Kbd, Loaded, Time, useTitle, Loading } from "./page/page";
export { ShareBar, ShareLegend, ShareTable } from "./basic/fair_share";
export { LastLogLines } from "./log/last_log_lines";
export { StateBadge, stateText, stateTone, TrialState } from "./basic/state_badge";
export { type Tab, Tabs } from "./page/tabs";
