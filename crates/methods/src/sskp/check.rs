//! What settings of SSkP must be, said before anything starts.

use sskp_blocks::Result;

use super::config::SskpConfig;
use super::planner::Planning;

impl SskpConfig {
    /// The first bad value, in one sentence. `table` is what they are called under.
    pub fn check(&self, table: &str) -> Result<()> {
        let Self { skill, risk, planner, policy, .. } = self;
        let need = |key: &str, fine: bool, needed: &str| crate::need(table, key, fine, needed);
        let width = |key: &str, x: usize| need(key, (1..=1 << 14).contains(&x), "between 1 and 16384");
        let layers = |key: &str, x: usize| need(key, (1..=64).contains(&x), "between 1 and 64");
        let rate = |key: &str, x: f64| need(key, x > 0.0 && x < 1.0, "between 0 and 1");
        let batch = |key: &str, x: usize| need(key, (1..=1 << 20).contains(&x), "between 1 and 1048576");
        let kept = |key: &str, x: usize| need(key, (1..=1 << 31).contains(&x), "between 1 and 2147483648");
        let not_negative = |key: &str, x: f64| need(key, x >= 0.0 && x.is_finite(), "0 or more");
        let per_skill = |key: &str, x: f64| need(key, (0.0..=1000.0).contains(&x), "between 0 and 1000");
        need("log_every", self.log_every > 0, "at least 1")?;

        need("skill.horizon", (1..=1000).contains(&skill.horizon), "between 1 and 1000")?;
        need("skill.dim", (1..=1024).contains(&skill.dim), "between 1 and 1024")?;
        width("skill.hidden", skill.hidden)?;
        width("skill.prior_width", skill.prior_width)?;
        layers("skill.prior_layers", skill.prior_layers)?;
        not_negative("skill.beta", skill.beta)?;
        batch("skill.batch", skill.batch)?;
        need("skill.steps", skill.steps > 0, "at least 1")?;
        rate("skill.rate", skill.rate)?;
        need("skill.held_out", (0.0..=0.5).contains(&skill.held_out), "between 0 and 0.5")?;

        width("risk.width", risk.width)?;
        rate("risk.rate", risk.rate)?;
        need("risk.weight_decay", (0.0..1.0).contains(&risk.weight_decay), "at least 0 and below 1")?;
        batch("risk.batch", risk.batch)?;
        not_negative("risk.slack", risk.slack)?;
        let share = "at least 0 and below 1";
        need("risk.class_prior", (0.0..1.0).contains(&risk.class_prior), share)?;
        let fallback = risk.fallback_class_prior;
        need("risk.fallback_class_prior", fallback > 0.0 && fallback < 1.0, "between 0 and 1")?;
        let [least, greatest] = risk.class_prior_bounds;
        let ordered = least >= 0.0 && least <= greatest && greatest > 0.0 && greatest < 1.0;
        need("risk.class_prior_bounds", ordered, "two numbers from 0 to below 1, the smaller first, not both 0")?;
        not_negative("risk.revise_over", risk.revise_over)?;
        kept("risk.capacity", risk.capacity)?;
        need("risk.relabel", risk.relabel <= 100, "at most 100")?;

        batch("planner.samples", planner.samples)?;
        let elites = (1..=planner.samples).contains(&planner.elites);
        need("planner.elites", elites, "at least 1 and at most planner.samples")?;
        need("planner.iterations", (1..=1000).contains(&planner.iterations), "between 1 and 1000")?;
        need("planner.min_std", planner.min_std > 0.0 && planner.min_std.is_finite(), "above 0")?;
        not_negative("planner.near_policy", planner.near_policy)?;
        need("planner.tolerance", (0.0..1.0).contains(&planner.tolerance), share)?;
        let control = !planner.placebo || planner.planning != Planning::Off;
        need(
            "planner.placebo",
            control,
            "false for a method that does not plan: a placebo is the control of planning",
        )?;

        policy.learner.check(&format!("{table}.policy.learner"))?;
        let entropy = policy.learner.entropy_per_action == SskpConfig::default().policy.learner.entropy_per_action;
        need("policy.learner.entropy_per_action", entropy, "left alone: policy.divergence is what holds the policy")?;
        not_negative("policy.divergence", policy.divergence)?;
        let scale = policy.reward_scale;
        need("policy.reward_scale", scale > 0.0 && scale.is_finite(), "above 0")?;
        batch("policy.batch", policy.batch)?;
        kept("policy.replay", policy.replay)?;
        per_skill("policy.updates_per_skill", policy.updates_per_skill)?;
        per_skill("policy.risk_updates_per_skill", policy.risk_updates_per_skill)?;
        not_negative("policy.violation_cost", policy.violation_cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_fine_and_a_bad_value_is_named_with_its_table() {
        SskpConfig::default().check("sskp").unwrap();
        let refused = |change: fn(&mut SskpConfig)| {
            let mut config = SskpConfig::default();
            change(&mut config);
            config.check("sskp").unwrap_err().to_string()
        };
        assert_eq!(refused(|c| c.skill.horizon = 0), "sskp.skill.horizon must be between 1 and 1000");
        assert_eq!(
            refused(|c| c.planner.elites = 513),
            "sskp.planner.elites must be at least 1 and at most planner.samples"
        );
        assert_eq!(
            refused(|c| c.policy.learner.gamma = 1.0),
            "sskp.policy.learner.gamma must be at least 0 and below 1"
        );
        assert_eq!(refused(|c| c.risk.rate = f64::NAN), "sskp.risk.rate must be between 0 and 1");
        assert_eq!(
            refused(|c| (c.planner.placebo, c.planner.planning) = (true, Planning::Off)),
            "sskp.planner.placebo must be false for a method that does not plan: a placebo is the control of planning"
        );
        assert!(refused(|c| c.risk.class_prior_bounds = [0.3, 0.1]).contains("the smaller first"));
    }
}
