// The parts that every page may need. Those that weigh more, or that few pages have, are taken from
// their own modules: chart, code, columns, log_view, table.

export { ActionButton, Button, LinkButton } from "./button";
export { Copy, CopyAs } from "./copy";
export { Dialog } from "./dialog";
export { Field, Search, Select, Switch, TextArea, TextInput } from "./field";
export { FormDialog } from "./form";
export { Icon, type IconName } from "./icon";
export { copyItems, Menu, type MenuItem, Popover } from "./menu";
export { Bar, Progress, Spark } from "./meter";
export { ActionBar, Ago, Due, Empty, ErrorBox, Head, Kbd, Loaded, Time, useTitle, Waiting } from "./page";
export { ShareBar, ShareKey, Shares } from "./share";
export { LastWords } from "./last_words";
export { StateBadge, stateText, stateTone, TrialState } from "./state";
export { type Tab, Tabs } from "./tabs";
