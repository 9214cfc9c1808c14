// All views of the page: name, address, and the user who opens it (null: nobody is signed in).

export const views = [
    { name: "sign-in", path: "/", user: null },
    { name: "overview", path: "/" },
    { name: "experiments", path: "/experiments" },
    { name: "experiments-filtered", path: "/experiments?filter=label+%3D+spirals&sort=name&columns=state,progress,validation.validation_loss,labels" },
    { name: "experiment-new", path: "/experiments/new" },
    { name: "experiment", path: "/experiments/3" },
    ...["trials", "hyperparameters", "search", "checkpoints", "logs", "timeline", "config"].map((tab) => ({
        name: `experiment-${tab}`,
        path: `/experiments/3?tab=${tab}`,
    })),
    { name: "experiment-failed", path: "/experiments/4" },
    { name: "experiment-running", path: "/experiments/5" },
    { name: "experiment-queued", path: "/experiments/8" },
    { name: "trial", path: "/trials/1" },
    ...["media", "log", "starts", "checkpoints", "hyperparameters"].map((tab) => ({ name: `trial-${tab}`, path: `/trials/1?tab=${tab}` })),
    { name: "trial-failed-log", path: "/trials/9?tab=log" },
    { name: "compare", path: "/compare?trials=1,2,3,4" },
    { name: "compare-settings", path: "/compare?trials=1,2,3,4&tab=settings" },
    { name: "cluster", path: "/cluster" },
    { name: "cluster-history", path: "/cluster?tab=history" },
    { name: "cluster-whatif", path: "/cluster?tab=whatif" },
    { name: "queue", path: "/queue" },
    { name: "registry", path: "/models" },
    { name: "model", path: "/models/spirals" },
    ...["users", "teams", "tokens", "agents", "webhooks", "templates", "audit", "notice", "log"].map((tab) => ({
        name: `admin-${tab}`,
        path: `/admin?tab=${tab}`,
        user: "admin",
    })),
    { name: "nothing", path: "/nothing/of/this/name" },
];
